"""What an endpoint serves is what the release record says; a change of the record may try versions meanwhile."""

from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nightshift import registry, storage
from nightshift.contracts.release_record import Action, Entry, Release, ReleasedVersion, Stage
from nightshift.registry import release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.errors import UserError
from nightshift.serving import files
from nightshift.serving.files import Challenger, DeploymentPointer
from nightshift.serving.released import read_pointer
from tests.nightshift.serving.events import CHOSEN, EVENTS, PAST, model
from tests.nightshift.tabular.online.streams import config, written


def describe(root: str, number: int, share: float = 1.0) -> ReleasedVersion:
    return release_record.describe(registry.find(root, "fraud", number)).model_copy(update={"traffic": share})


def challenge(root: str, share: float) -> None:
    """Have the record say that version 2 answers a share of the requests beside version 1."""
    versions = [describe(root, 1, 1 - share), describe(root, 2, share)]
    stage = Stage.CANARY if share else Stage.SHADOW
    entry = Entry(stage=stage, versions=versions, action=Action.ADVANCED, since=datetime.now(UTC), by="test")

    def decide(record: Release | None) -> Entry:
        assert record
        return entry

    release_record.change(ReleaseRef(root, "fraud"), decide)


def point(root: str, number: int, share: float = 0.0, trial: str | None = None) -> DeploymentPointer:
    """Write a pointer to a version, and to version 2 beside it."""
    version, second = registry.find(root, "fraud", number), registry.find(root, "fraud", 2)
    beside = Challenger(2, second.uri, second.sha256, share) if share else None
    pointer = DeploymentPointer(number, version.uri, version.sha256, "2018-08-01T00:00:00+00:00", None, beside, trial)
    storage.write_json(files.pointer_uri(root, "fraud"), asdict(pointer))
    return pointer


def served(root: str) -> tuple[int, float]:
    """Return the version to serve, and the share of its challenger."""
    pointer = read_pointer(root, "fraud")
    return pointer.version, pointer.challenger.share if pointer.challenger else 0.0


Change = Callable[[str], object]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda root: release_record.promote(ReleaseRef(root, "fraud"), 3), (3, 0.0)),
        (lambda root: release_record.rollback(ReleaseRef(root, "fraud")), (1, 0.0)),
        (lambda root: challenge(root, 0.7), (1, 0.7)),
        (lambda root: challenge(root, 0.0), (1, 0.0)),  # in shadow
        (lambda root: (challenge(root, 0.7), release_record.rollback(ReleaseRef(root, "fraud"))), (1, 0.0)),
    ],
)
def test_the_record_decides_whatever_the_pointer_still_says(
    stocked: str, change: Change, expected: tuple[int, float]
) -> None:
    for number in (1, 2):
        release_record.promote(ReleaseRef(stocked, "fraud"), number)
    point(stocked, 2, trial="of a change that is over")
    assert served(stocked) == (2, 0.0)
    change(stocked)
    assert served(stocked) == expected
    point(stocked, 2, 0.3)
    assert served(stocked) == expected
    pointer = read_pointer(stocked, "fraud")
    assert pointer.uri == registry.find(stocked, "fraud", expected[0]).uri
    assert pointer.since == release_record.read(ReleaseRef(stocked, "fraud")).live_since[expected[0]].isoformat(
        timespec="seconds"
    )


def test_a_version_is_tried_only_as_long_as_its_own_change_holds_the_registry(stocked: str) -> None:
    release_record.promote(ReleaseRef(stocked, "fraud"), 1)
    with registry.lock(stocked):
        tried = point(stocked, 2, trial=registry.read_holder(stocked))
        assert read_pointer(stocked, "fraud") == tried
        release_record.promote(ReleaseRef(stocked, "fraud"), 2)
    # what was tried is what is released, so nothing is loaded again
    assert read_pointer(stocked, "fraud") == tried
    with registry.lock(stocked):
        point(stocked, 3, trial=registry.read_holder(stocked))
        assert served(stocked) == (3, 0.0)
    assert served(stocked) == (2, 0.0)  # the change was killed before it changed the record
    with registry.lock(stocked):
        assert served(stocked) == (2, 0.0)  # another change has begun


def test_an_endpoint_without_a_release_record_serves_its_pointer(stocked: str) -> None:
    assert point(stocked, 3) == read_pointer(stocked, "fraud")


def test_a_released_version_that_is_gone_is_named(stocked: str) -> None:
    release_record.promote(ReleaseRef(stocked, "fraud"), 2)
    point(stocked, 1)
    registry.remove(stocked, "fraud", [2])
    with pytest.raises(UserError, match=r"2.*existing versions.*1, 3"):
        read_pointer(stocked, "fraud")


def test_a_version_with_other_windows_gets_the_newest_snapshot_that_has_them(tmp_path: Path) -> None:
    root, other = str(tmp_path / "registry"), config(windows=(2,))
    uris = []
    for number, chosen in enumerate((CHOSEN, other), 1):
        registry.register(root, "fraud", model(tmp_path / str(number), chosen), {})
        (folder := tmp_path / "online" / f"date=2018-08-0{number}").mkdir(parents=True)
        uris.append(written(EVENTS, chosen, PAST, str(folder)))
    release_record.promote(ReleaseRef(root, "fraud"), 2)
    pointer = replace(point(root, 1), snapshot=uris[0])
    storage.write_json(files.pointer_uri(root, "fraud"), asdict(pointer))
    assert read_pointer(root, "fraud").snapshot == uris[1]
