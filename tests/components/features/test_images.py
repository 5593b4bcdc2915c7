"""Shards of pixels: what is in them, what names them, and what is not made again."""

from contextlib import nullcontext
from datetime import date

import numpy as np
import PIL
import pytest

from nightshift import storage
from nightshift.contracts import tables
from nightshift.items import images, shards
from nightshift.tasks.classification import features as items
from nightshift.tasks.images.ingestion import IngestionTask
from nightshift.tasks.images.views import view
from tests.components.pictures import CONFIG, config, feature, ingest, parsed

DAY, NEXT = date(2024, 3, 4), date(2024, 3, 5)


@pytest.fixture
def ingested(tmp_path):
    return tmp_path, ingest(tmp_path, CONFIG)


def test_a_shard_holds_what_networks_see_of_each_image_of_the_day(ingested):
    folder, events = ingested
    table, _ = feature(folder, CONFIG)
    assert [part.date for part in table.partitions] == [part.date for part in events.partitions]
    day = table.partitions[-1]
    rows, pixels = storage.read_frame(day.uri), shards.map_shard(day)
    files = storage.read_frame(events.partitions[-1].uri)
    assert pixels.dtype == np.uint8
    assert pixels.shape == (24, 16, 16, 1)
    for number in (0, 23):
        assert rows["event_id"][number] == files["event_id"][number]
        image = images.decode_image(files["image"][number], 10**6, 16)
        assert np.array_equal(pixels[number], images.square(image, 16, 1))
        assert rows["content"][number] == storage.sha256(pixels[number].tobytes())


def test_a_day_is_made_once_and_the_rest_of_it_after_it_was_lost(ingested):
    folder, _ = ingested
    table, metrics = feature(folder, CONFIG)
    assert metrics == {"rows": 7 * 24, "computed_days": 7}
    assert feature(folder, CONFIG)[1]["computed_days"] == 0
    # killed between the shard and the sidecar
    storage.remove(f"{table.partitions[3].uri}.json")
    again, metrics = feature(folder, CONFIG)
    assert (again.sha256, metrics["computed_days"]) == (table.sha256, 1)


def test_a_shard_is_named_after_what_it_is_made_of(ingested):
    folder, _ = ingested
    before = feature(folder, CONFIG)[0]
    assert feature(folder, config(task={"side": 8}))[0].partitions[0].uri != before.partitions[0].uri
    assert feature(folder, config(task={"channels": 3}))[0].partitions[0].uri != before.partitions[0].uri
    assert feature(folder, config(task={"seed": 7}))[0].partitions[0].uri == before.partitions[0].uri


def test_another_version_of_the_decoder_makes_every_day_again(ingested, monkeypatch):
    folder, events = ingested
    before = feature(folder, CONFIG)[0]
    monkeypatch.setattr(PIL, "__version__", "0")
    assert items.ShardSetup(parsed(), view(parsed().task), str(folder), events).uri(DAY) != before.partition(DAY).uri
    assert IngestionTask().rules(parsed())["pillow"] == "0"


def test_no_more_processes_decode_than_a_container_may_use(monkeypatch):
    counts = []
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(96)))
    monkeypatch.setattr(items, "ProcessPoolExecutor", lambda count, _: counts.append(count) or nullcontext())
    with items.looking(view(parsed().task), items.ALONE + 1):
        assert counts == [items.PROCESSES]


def test_a_day_whose_images_were_all_refused_has_a_shard_without_any(ingested):
    folder, events = ingested
    first, second = events.partitions[:2]
    empty = storage.read_frame(first.uri).iloc[:0]
    emptied = tables.write_partition(first.uri, DAY, empty, {})
    table = tables.Table("events", [emptied, second])
    setup = items.ShardSetup(parsed(), view(parsed().task), str(folder), table)
    parts = items.write(setup, {DAY: setup.uri(DAY), NEXT: setup.uri(NEXT)})
    assert shards.map_shard(parts[DAY]).shape == (0, 16, 16, 1)
    frames = [storage.read_frame(part.uri) for part in parts.values()]
    assert frames[0].dtypes.equals(frames[1].dtypes)


@pytest.mark.slow
def test_many_images_are_decoded_by_several_processes_into_the_same_pixels(ingested):
    _, events = ingested
    task = parsed().task
    images = [image for part in events.partitions[:2] for image in storage.read_frame(part.uri)["image"]]
    with items.looking(view(task), 1) as alone:
        expected = list(alone([images]))
    with items.looking(view(task), items.ALONE + 1) as together:
        assert all(map(np.array_equal, together([images]), expected))
