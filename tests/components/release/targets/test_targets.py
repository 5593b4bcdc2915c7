"""What holds for every target: the same sentences, on a stand-in of each platform."""

from collections.abc import Callable, Iterator
from importlib import import_module

import pytest

from components.release.targets import BadVersionError, VersionShare, rollout
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.serving.__main__ import parser
from tests.components.release.targets.platform import Killed, Platform
from tests.components.release.targets.versions import KINDS, Fleet

MODULES = ("local", "kserve_raw", "llm_inference_service", "aws", "vertex_ai", "cloud_run")
STEPS = (
    {"v1": 1},
    {"v1": 0.95, "v2": 0.05},
    {"v1": 0.5, "v2": 0.5},
    {"v2": 1},
    {"v2": 0.75, "v1": 0.25},
    {"v1": 0.75, "v2": 0.25},  # as after a promotion by hand
    {"v2": 1},
)


@pytest.fixture(scope="module", params=MODULES)
def module(
    request: pytest.FixtureRequest, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Platform]:
    folder, name = tmp_path_factory.mktemp(request.param), f"tests.components.release.targets.{request.param}"
    with import_module(name).platform(fleet, folder) as platform:
        yield platform


@pytest.fixture
def platform(module: Platform) -> Platform:
    module.clear()
    module.counted.clear()
    return module


def needs(has: object, why: str) -> None:
    if not has:
        pytest.skip(why)


def steps(platform: Platform, fleet: Fleet) -> list[list[VersionShare]]:
    """The splits of a release that a platform can have."""
    return [fleet.split(**shares) for shares in STEPS if platform.splits or len(shares) == 1]


def shares(split: list[VersionShare]) -> dict[int, float]:
    return {share.version.version: share.traffic for share in split}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_release_goes_through_its_shares_and_back_and_leaves_nothing(platform: Platform, kind: str) -> None:
    needs(kind in platform.kinds, f"{kind} are tried with the step itself")
    empty, before = platform.state(), list[VersionShare]()
    for split in steps(platform, platform.fleet.select_kind(kind)):
        rollout(platform.target(), split, before)
        assert platform.target().serving() == shares(split)
        assert platform.versions() == set(shares(split))
        before = split
    platform.target().clean(())
    assert platform.target().serving() == {}
    assert platform.state() == empty


def test_another_share_takes_as_few_calls_as_can_be_and_no_change_none(platform: Platform) -> None:
    needs(platform.splits and platform.counts_calls, "it has no shares, or no calls")
    rollout(platform.target(), platform.fleet.split(v1=0.95, v2=0.05))
    for calls in (platform.share_calls, 0):
        platform.counted.clear()
        rollout(platform.target(), platform.fleet.split(v1=0.75, v2=0.25))
        assert len(platform.counted.changes) == calls


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["broken", "wrong"])
def test_a_failed_version_leaves_the_champion_at_100_percent_and_gets_no_request_that_can_be_spared(
    platform: Platform, fault: str
) -> None:
    bad = getattr(platform.fleet, fault)()
    message = platform.failure if fault == "broken" else r"where its files score 0\.123"
    empty, champion = platform.state(), platform.fleet.split(v1=1)
    with pytest.raises(BadVersionError, match=message):
        rollout(platform.target(), [bad])
    assert platform.state() == empty

    rollout(platform.target(), champion)
    traffic: list[dict[int, float]] = []
    platform.counted.watch = lambda: traffic.append(platform.shares())
    for _ in range(2):
        with pytest.raises(BadVersionError, match=message):
            rollout(platform.target(), [bad], champion)
    platform.counted.watch = None
    assert platform.target().serving() == {1: 1}
    assert platform.versions() == {1}
    if fault == "broken" or platform.asks_first:
        assert traffic and all(split == {1: 1} for split in traffic)


@pytest.mark.parametrize("number", [0, 1])
def test_a_version_that_starts_and_gives_no_answer_is_taken_back(platform: Platform, number: int) -> None:
    needs(len(platform.silences) > number, "a version cannot be so")
    champion = platform.fleet.split(v1=1)
    rollout(platform.target(), champion)
    message = r"version 3 (does not answer: |has not answered any of \d+ requests)"
    with platform.fleet.silent(platform.silences[number]) as bad, pytest.raises(BadVersionError, match=message):
        rollout(platform.target(), [bad], champion)
    assert platform.target().serving() == {1: 1}
    assert platform.versions() == {1}


def killed_everywhere(platform: Platform, act: Callable[[], None]) -> None:
    """Check that an act that is killed before any of its calls, and then made again, leaves what it leaves at once."""
    restore, counted = platform.saved(), platform.counted
    restore()
    counted.clear()
    act()
    total, wanted = len(counted.calls), platform.state()
    assert total
    for number in range(total):
        restore()
        counted.clear()
        counted.before = number
        with pytest.raises(Killed):
            act()
        act()
        assert platform.state() == wanted, f"killed before call {number}, {counted.calls[number]}"


@pytest.mark.slow
def test_a_rollout_that_was_killed_before_any_call_is_finished_by_the_next_process(platform: Platform) -> None:
    empty, before = platform.state(), list[VersionShare]()
    for split in [*steps(platform, platform.fleet)[:4], []]:

        def act(split: list[VersionShare] = split, before: list[VersionShare] = before) -> None:
            if split:
                rollout(platform.target(), split, before)
            else:
                platform.target().clean(())

        killed_everywhere(platform, act)
        before = split
    assert platform.state() == empty


@pytest.mark.slow
def test_killed_while_a_bad_version_is_tried_the_next_process_puts_everything_back(platform: Platform) -> None:
    champion = platform.fleet.split(v1=1)
    rollout(platform.target(), champion)

    def act() -> None:
        with pytest.raises(BadVersionError):
            rollout(platform.target(), [platform.fleet.broken()], champion)

    killed_everywhere(platform, act)
    assert platform.target().serving() == {1: 1}


def test_what_bears_the_name_and_is_not_ours_is_refused_and_left_alone(platform: Platform) -> None:
    needs(platform.foreign, "on this machine all is ours")
    for appear, message in platform.foreign:
        platform.clear()
        rollout(platform.target(), platform.fleet.split(v1=1))
        appear()
        before = platform.state()
        for act in (
            lambda: rollout(platform.target(), platform.fleet.split(v1=1)),
            lambda: platform.target().clean(()),
        ):
            with pytest.raises(UserError, match=message):
                act()
            assert platform.state() == before


def test_another_use_case_whose_name_begins_alike_keeps_what_is_its_own(platform: Platform) -> None:
    needs(platform.many, "its stand-in has one use case")
    other = platform.target("fraud-v2")
    rollout(other, platform.fleet.split(v1=1))
    before = platform.state()
    for split in (platform.fleet.split(v1=1), platform.fleet.split(v2=1)):
        rollout(platform.target(), split)
    platform.target().clean(())
    assert platform.state() == before
    assert other.serving() == {1: 1}


def test_what_another_hand_changes_meanwhile_is_not_overwritten(platform: Platform) -> None:
    needs(type(platform).intrude is not Platform.intrude, "it does not say who was first")
    splits = steps(platform, platform.fleet)
    first, second = splits[1:3] if platform.splits else splits[:2]
    rollout(platform.target(), first)
    theirs = []

    def intrude() -> None:
        platform.intrude()
        theirs.append(platform.state())

    platform.counted.intrude = intrude
    with pytest.raises(UnavailableError, match="run it again"):
        platform.target().apply(second)
    assert theirs == [platform.state()]


def test_what_takes_too_long_ends_with_1_and_is_finished_by_the_next_try(platform: Platform) -> None:
    needs(platform.late, "how its server is waited for is tested with the endpoint")
    with platform.standing_still() as target, pytest.raises(UnavailableError, match=f"{platform.late}.*; run it again"):
        target.apply(platform.fleet.split(v1=1))
    rollout(platform.target(), platform.fleet.split(v1=1))
    assert platform.target().serving() == {1: 1}


@pytest.mark.slow
def test_a_platform_that_does_not_answer_ends_with_1(platform: Platform) -> None:
    target = platform.nowhere()
    needs(target, "it is tested with its client")
    assert target
    with pytest.raises(UnavailableError, match="; run it again"):
        target.apply(platform.fleet.split(v1=1))


def test_a_share_that_a_platform_cannot_have_is_named(platform: Platform) -> None:
    needs(platform.percentages, "it takes any share")
    message = rf"release\.shares holds 0\.125; {platform.percentages} takes whole percentages"
    with pytest.raises(UserError, match=message):
        platform.target().apply(platform.fleet.split(v1=0.875, v2=0.125))


def test_behind_a_tracking_server_a_container_reads_where_that_keeps_its_files(platform: Platform) -> None:
    needs(type(platform).command is not Platform.command, "it reads the registry itself")
    share = platform.fleet.downloaded("gs://bucket/mlflow/1/abc/artifacts/model")
    with pytest.raises(UserError, match=r"where no container reads them; .* give state\.serving\.artifacts"):
        platform.target().apply([share])
    rollout(platform.target(artifacts="gs://bucket/mlflow"), [share])


def test_a_replica_with_a_gpu_has_the_server_use_it(platform: Platform) -> None:
    needs(type(platform).command is not Platform.command, "it is told otherwise")
    rollout(platform.target(), platform.fleet.split(v1=1))
    assert parser().parse_args(platform.command()).device != "cuda"
    rollout(platform.target(**platform.gpu), platform.fleet.split(v1=1))
    assert parser().parse_args(platform.command()).device == "cuda"
