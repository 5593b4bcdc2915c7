"""What classification reads of rows with several contents."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch

from nightshift.items.shards import ItemTable, Shards
from nightshift.tasks.classification import class_networks, features
from nightshift.tasks.classification.kinds import View
from nightshift.tasks.items.networks import FitSetup

PAIR = [("pixels", np.uint8, (2, 2, 1)), ("tokens", np.int32, (3,))]


def make_pairs(count):
    pairs = np.zeros(count, PAIR)
    pairs["pixels"] = np.arange(count)[:, None, None, None]
    pairs["tokens"] = np.arange(count)[:, None] * 10
    return pairs


def gather(resident):
    rows = pd.DataFrame({"label": ["a"] * 5})
    items = ItemTable(rows, Shards([make_pairs(3), make_pairs(2)]))
    inputs = class_networks.gather_inputs(FitSetup(None, "cpu", resident=resident), items.shards, rows.iloc[[4, 1, 2]])
    return [
        {name: values.flatten(1)[:, 0].tolist() for name, values in batch.items()}
        for batch in inputs(torch.tensor([0, 2, 1]), [2, 1], 0)
    ]


def test_a_network_gets_the_parts_of_a_row_by_name_from_the_device_or_from_disk():
    expected = [{"pixels": [1, 2], "tokens": [10, 20]}, {"pixels": [1], "tokens": [10]}]

    assert gather(resident=1 << 20) == gather(resident=0) == expected


def test_the_same_content_is_known_by_the_part_that_says_so():
    first, second = make_pairs(1), make_pairs(1)
    second["tokens"] += 1
    by_pixels, by_all = (View(("a",), np.array, first[:0], [], known_by=name) for name in ("pixels", ""))

    assert by_pixels.identify(first) == by_pixels.identify(second)
    assert by_all.identify(first) != by_all.identify(second)


def test_rows_keep_the_texts_that_people_are_shown_and_no_other_contents():
    config = SimpleNamespace(
        columns=SimpleNamespace(roles=["event_id", "event_time", "image", "report", "label", "site"])
    )
    apart, shown = (View(("image", "report"), np.array, make_pairs(0), [], kept=kept) for kept in ((), ("report",)))

    assert features.list_kept(config, apart) == ["event_id", "event_time", "site", "label"]
    assert features.list_kept(config, shown) == ["event_id", "event_time", "report", "site", "label"]
