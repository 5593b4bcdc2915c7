"""Which version is live: changed by hand, by racing deployments, and after processes that were killed."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nightshift import registry, storage
from nightshift.contracts import package
from nightshift.contracts.release_record import Action, Entry, Release, ReleasedVersion, Stage
from nightshift.registry import Version, release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.errors import UserError
from nightshift.tabular.inputs import FrameScorer
from nightshift_testkit import gcs, s3

EVENT = pd.DataFrame([{"amount": 1.0, "customer_count_1d": 2.0, "channel": "shop"}])
RACES = int(os.environ.get("RACES", "20"))


@pytest.mark.parametrize(
    ("actions", "champions"),
    [
        ("1 2 back back 2 back", [1, 2, 1, "nothing", 2, 1]),
        ("1 2 3 back back back", [1, 2, 3, 2, 1, "nothing"]),
        ("1 2 2 back", [1, 2, 2, 1]),
        ("1 2 1 back back back", [1, 2, 1, 2, 1, "nothing"]),
        ("1 2 back 3 back", [1, 2, 1, 3, 1]),
        ("back", ["nothing"]),
    ],
)
def test_a_rollback_goes_back_to_the_champion_before(stocked, actions, champions):
    assert [_act(stocked, action) for action in actions.split()] == champions


def _act(folder: str, action: str) -> int | str:
    ref = ReleaseRef(folder, "fraud")
    if action != "back":
        release_record.promote(ref, int(action))
    else:
        try:
            release_record.rollback(ref)
        except UserError as error:
            return "nothing" if "nothing to roll back to" in str(error) else str(error)
    champion = release_record.champion(ReleaseRef(folder, "fraud"))
    return champion.version if champion else "none"


def test_who_promoted_and_who_rolled_back_and_when_is_written_down(stocked):
    ref, began = ReleaseRef(stocked, "fraud"), datetime.now(UTC)
    release_record.promote(ref, 1)
    release_record.promote(ref, 2)
    release_record.rollback(ref)

    record = json.loads(Path(stocked, "releases", "fraud.json").read_text())
    states = [*record["history"], record]
    assert [(state["action"], state["versions"][0]["version"]) for state in states] == [
        ("promoted", 1),
        ("promoted", 2),
        ("rolled_back", 1),
    ]
    assert {state["by"] for state in states} == {registry.user()}
    assert all(began <= datetime.fromisoformat(state["since"]) <= datetime.now(UTC) for state in states)
    assert record["versions"] == [
        {
            "version": 1,
            "sha256": registry.find(stocked, "fraud", 1).sha256,
            "traffic": 1.0,
            "trained_until": "2018-07-29",
        }
    ]
    assert (record["schema"], record["use_case"], record["stage"]) == (1, "fraud", "live")


def test_a_version_is_taken_out_of_service_until_somebody_promotes_it_again(stocked):
    ref = ReleaseRef(stocked, "fraud")
    seen = []
    for action in ("1", "2", "back", "3", "2"):
        _act(stocked, action)
        seen.append(release_record.read(ref).rolled_back)
    assert seen == [set(), set(), {2}, {2}, set()]


def test_a_rollback_while_a_challenger_is_being_released_takes_only_that_out(stocked):
    ref = ReleaseRef(stocked, "fraud")
    for number in (1, 2):
        release_record.promote(ref, number)
    since = release_record.read(ref).since

    def begin(record: Release) -> Entry:
        versions = [*record.versions, ReleasedVersion(version=3, sha256="c", traffic=0)]
        return Entry(stage=Stage.SHADOW, versions=versions, action=Action.STARTED, since=datetime.now(UTC), by="test")

    release_record.change(ref, begin)
    assert release_record.list_pinned(ref) == {1: "rollback target", 2: "champion", 3: "challenger"}
    assert release_record.rollback(ref).version == 2
    record = release_record.read(ref)
    assert (record.rolled_back, record.trail, record.live_since[2]) == ({3}, [1, 2], since)


def test_a_version_deleted_since_is_passed_over_by_a_rollback(stocked):
    for number in (1, 2, 3):
        release_record.promote(ReleaseRef(stocked, "fraud"), number)
    registry.remove(stocked, "fraud", [2])
    assert release_record.rollback(ReleaseRef(stocked, "fraud")).version == 1


def test_a_wrong_version_is_answered_with_those_that_exist(stocked):
    with pytest.raises(UserError, match=r"'fraud' has no version 9; existing versions: 1, 2, 3"):
        release_record.promote(ReleaseRef(stocked, "fraud"), 9)
    assert release_record.champion(ReleaseRef(stocked, "fraud")) is None


A, B, C, D = (
    Version("fraud", number, "", text, {"train_last": f"2018-07-0{number}"}) for number, text in enumerate("abcd", 1)
)


def tagged(version: Version, **tags: str) -> Version:
    return replace(version, tags=version.tags | tags)


@pytest.mark.parametrize(
    ("trail", "since", "reference"),
    [
        ([A], "2018-07-01", None),
        ([A, B], "2018-07-01", A),
        ([A, B, C], "2018-07-01", A),  # nothing is said, so the oldest
        ([A, B, C], "2018-07-02", B),
        ([A, B, C], "2018-07-03", None),
        ([A, B, tagged(C, reference="b")], "2018-07-01", B),
        ([A, B, tagged(C, reference="c")], "2018-07-01", None),  # better beyond noise than all before
        ([A, B, tagged(C, reference="x")], "2018-07-01", A),  # has been rolled back since
        (
            [A, tagged(B, evaluation="undecided"), C],
            "2018-07-01",
            tagged(B, evaluation="undecided"),
        ),  # promoted by a person, from whom all counts anew
        ([A, tagged(B, evaluation="fail")], "2018-07-01", None),
        ([A, tagged(B, evaluation="pass"), tagged(C, reference="a"), tagged(D, reference="a")], "2018-07-01", A),
    ],
)
def test_the_reference_is_what_the_live_version_was_held_to_until_a_person_overrules_the_gate(trail, since, reference):
    assert release_record.choose_reference(trail, date.fromisoformat(since)) == reference


def test_a_version_that_was_rolled_back_is_no_reference_and_one_that_is_stays(stocked):
    ref, since = ReleaseRef(stocked, "fraud"), date(2018, 7, 1)
    assert release_record.find_reference(ref, since) is None
    for number in (1, 2, 3):
        release_record.promote(ref, number)
    assert release_record.find_reference(ref, since).version == 1
    release_record.rollback(ref)
    assert release_record.find_reference(ref, since).version == 1
    release_record.rollback(ref)
    assert release_record.find_reference(ref, since) is None


def test_what_is_needed_however_old_is_the_champion_and_the_one_before(stocked, tmp_path):
    assert release_record.list_pinned(ReleaseRef(stocked, "fraud")) == {}
    for number in (1, 2, 3):
        release_record.promote(ReleaseRef(stocked, "fraud"), number)
    assert release_record.list_pinned(ReleaseRef(stocked, "fraud")) == {2: "rollback target", 3: "champion"}
    assert release_record.list_pinned(ReleaseRef(str(tmp_path / "nothing"), "fraud")) == {}
    assert not (tmp_path / "nothing").exists()


def test_what_fails_before_the_record_changes_changes_nothing(stocked):
    ref = ReleaseRef(stocked, "fraud")
    release_record.promote(ref, 1)

    def fail(_: registry.Version) -> None:
        raise UserError("it does not answer")

    with pytest.raises(UserError, match="it does not answer"):
        release_record.promote(ref, 2, fail)
    assert release_record.champion(ReleaseRef(stocked, "fraud")).version == registry.alias(stocked, "fraud") == 1


def test_the_alias_is_set_by_the_next_reader_when_the_process_that_changed_the_record_was_killed(stocked):
    ref, version = ReleaseRef(stocked, "fraud"), registry.find(stocked, "fraud", 2)
    release_record.promote(ref, 1)
    release_record.settle(ref.uri, "fraud", lambda _: release_record.entry(Action.PROMOTED, version))
    assert registry.alias(stocked, "fraud") == 1

    assert release_record.champion(ReleaseRef(stocked, "fraud")).version == 2
    assert registry.alias(stocked, "fraud") == 2


def test_the_alias_follows_a_record_that_changes_while_it_is_set(stocked):
    ref = ReleaseRef(stocked, "fraud")
    release_record.promote(ref, 1)
    stale = release_record.read(ref)
    release_record.promote(ref, 3)
    # as a process does that was stopped between its record and its alias, and is awake again
    release_record.mirror(ref, stale)
    registry.set_alias(stocked, "fraud", 1)
    release_record.mirror(ref, stale)
    release_record.mirror(ref, release_record.read(ref))
    assert registry.alias(stocked, "fraud") == 3


def test_a_record_that_is_none_is_named(stocked):
    storage.write_json(ReleaseRef(stocked, "fraud").uri, {"stage": "live"})
    with pytest.raises(
        UserError, match=r"releases/fraud\.json is no Release of this version: .*; restore it from a backup"
    ):
        release_record.read(ReleaseRef(stocked, "fraud"))


def test_a_tracking_server_needs_another_place_for_its_records():
    with pytest.raises(UserError, match="is a tracking server, which cannot hold release records; give the audit root"):
        release_record.read(ReleaseRef("http://mlflow:5000", "fraud"))


@pytest.fixture(params=["disk", "s3", "gs"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A record on a disk, on an S3 server, and on a server that speaks Google Cloud Storage's API."""
    name = f"{tmp_path.name}/releases/fraud.json"
    if request.param == "disk":
        yield f"{tmp_path}/{name}"
    elif request.param == "gs":
        with gcs.bucket():
            yield f"gs://lake/{name}"
    else:
        with s3.bucket() as url, s3.reached_at(url):
            yield f"s3://lake/{name}"


Decide = Callable[[Release | None], Entry | None]


def newer(day: date) -> Decide:
    """What a deployment decides whose model was trained until a day."""

    def decide(record: Release | None) -> Entry | None:
        if record and record.live.trained_until >= day:
            return None
        version = ReleasedVersion(version=day.toordinal(), sha256=str(day), trained_until=day)
        return Entry(versions=[version], action=Action.PROMOTED, since=datetime.now(UTC), by="test", run=str(day))

    return decide


def race(days: list[date], deploy: Callable[[Decide], Release | None]) -> list[str]:
    """Deploy models at the same time; return which of the deployments were told that theirs went live."""
    start, promoted, failures = threading.Barrier(len(days)), [], []

    def run(day: date) -> None:
        try:
            start.wait()
            record = deploy(newer(day))
            promoted.extend([str(day)] if record.run == str(day) else [])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(day,)) for day in days]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    return promoted


def check_races(count: int, deploy: Callable[[Decide], Release | None]) -> None:
    """Never an older model over a newer one, and each promotion that a deployment was told of once in the record."""
    day, promoted = date(2018, 1, 1), []
    for _ in range(count):
        pair = [day + timedelta(days=1), day + timedelta(days=2)]
        promoted += race(pair, deploy)
        day = pair[-1]
        record = deploy(lambda _: None)
        assert record.live.trained_until == day
    runs = [entry.run for entry in record.entries]
    assert runs == sorted(set(runs))
    assert sorted(promoted) == runs


@pytest.mark.slow
def test_deployments_that_race_never_put_an_older_model_over_a_newer(uri: str) -> None:
    check_races(RACES, lambda decide: release_record.settle(uri, "fraud", decide))


def test_a_deployment_that_comes_second_decides_again_from_the_newer_record(uri: str) -> None:
    day, seen = date(2018, 1, 1), []

    def late(record: Release | None) -> Entry | None:
        seen.append(record)
        if record is None:  # between our decision and our write another one promotes a newer model
            release_record.settle(uri, "fraud", newer(day + timedelta(days=1)))
        return newer(day)(record)

    record = release_record.settle(uri, "fraud", late)

    assert [record and record.live.trained_until for record in seen] == [None, date(2018, 1, 2)]
    assert (record, record.history) == (seen[1], [])


@pytest.mark.slow
@pytest.mark.xdist_group("tracking")
def test_a_tracking_server_is_as_good_as_a_folder(tracking_server, save_model, tmp_path):
    uri = save_model(0.5)
    registry.register(tracking_server, "tracked", uri, {"config": json.dumps({"long": "x" * 20_000})})
    registry.register(tracking_server, "tracked", save_model(0.6), {})
    ref = ReleaseRef(tracking_server, "tracked", str(tmp_path / "audit"))
    release_record.promote(ref, 1)
    release_record.promote(ref, 2)
    assert release_record.rollback(ref).version == 1
    champion = release_record.champion(ref)
    expected = FrameScorer(uri, package.load(uri)).score(EVENT)
    np.testing.assert_array_equal(FrameScorer(champion.uri, package.load(champion.uri)).score(EVENT), expected)


@pytest.mark.slow
@pytest.mark.xdist_group("tracking")
def test_deployments_that_race_on_a_tracking_server_leave_one_record_and_its_alias(tracking_server, tmp_path):
    from mlflow import MlflowClient

    client, ref = MlflowClient(tracking_server), ReleaseRef(tracking_server, "raced", str(tmp_path / "audit"))
    client.create_registered_model("raced")
    versions = [client.create_model_version("raced", "s3://lake/a", await_creation_for=0) for _ in range(2)]

    def deploy(decide: Decide) -> Release | None:
        def numbered(record: Release | None) -> Entry | None:
            wanted = decide(record)
            number = wanted and versions[wanted.live.version % 2].version
            return wanted and wanted.model_copy(
                update={"versions": [wanted.live.model_copy(update={"version": int(number)})]}
            )

        return release_record.change(ref, numbered)

    check_races(RACES // 4, deploy)  # the server is slow
    assert registry.alias(tracking_server, "raced") == release_record.read(ref).live.version
