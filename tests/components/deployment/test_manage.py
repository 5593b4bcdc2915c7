import re
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from components.deployment import manage
from nightshift import registry, release
from nightshift.contracts.state import State
from nightshift.errors import UserError
from nightshift.release import Place
from tests.components import states


def kept_in(folder: str) -> State:
    return State.parse(states.state(Path(folder).parent, registry=folder))


def test_models_lists_every_version_and_marks_the_champion(stocked, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    release.promote(Place(stocked, "fraud"), 2)
    manage.models(kept_in(stocked))
    printed = capsys.readouterr().out
    assert re.search(r"average\s.*\n.* precision ", printed)
    rows = [re.split(r"  +", line.strip()) for line in printed.splitlines() if ".." in line]
    assert [row[:3] for row in rows] == [
        ["1", "2018-07-25 .. 2018-07-29", "0.6000"],
        ["2 *", "2018-07-25 .. 2018-07-30", "0.6000"],
        ["3", "2018-07-25 .. 2018-07-31", "0.6000"],
    ]
    registered = [version.tags["registered_at"][:10] for version in registry.versions(stocked, "fraud")]
    (live,) = release.read(Place(stocked, "fraud")).live_since.values()
    dates = [[cell[:10] for cell in row[3:]] for row in rows]
    assert dates == [[registered[0], "-"], [registered[1], str(live)[:10]], [registered[2], "-"]]


def test_promote_and_rollback_move_the_champion_and_the_running_endpoint(stocked, serve, capsys):
    state = serve(1)
    manage.promote(kept_in(stocked), "1")
    manage.promote(kept_in(stocked), "3")
    assert httpx.get(f"{state.url}/model").json()["version"] == 3
    before = datetime.now(UTC).isoformat(timespec="seconds")
    manage.rollback(kept_in(stocked))
    model = httpx.get(f"{state.url}/model").json()
    assert model["version"] == 1
    assert model["champion_since"] >= before
    assert release.champion(Place(stocked, "fraud")).version == 1
    assert "fraud: version 1 is the champion now" in capsys.readouterr().out


def test_promote_without_an_endpoint_starts_none(stocked, capsys):
    manage.promote(kept_in(stocked), "2")
    assert release.champion(Place(stocked, "fraud")).version == 2
    assert capsys.readouterr().out == "no endpoint is running here\nfraud: version 2 is the champion now\n"


@pytest.mark.parametrize("version", ["9", "two", "2.0"])
def test_a_wrong_version_is_answered_with_those_that_exist(stocked, version):
    with pytest.raises(UserError, match=r"existing versions.*: 1, 2, 3"):
        manage.promote(kept_in(stocked), version)
    assert release.champion(Place(stocked, "fraud")) is None


def test_a_rollback_without_an_earlier_champion_is_refused(stocked):
    manage.promote(kept_in(stocked), "1")
    with pytest.raises(UserError, match="nothing to roll back to"):
        manage.rollback(kept_in(stocked))


def test_a_model_has_to_be_named_where_there_are_several(stocked, save_model):
    registry.register(stocked, "handbook", save_model(0.5), {})
    with pytest.raises(UserError, match="--name is None; registered models: fraud, handbook"):
        manage.promote(kept_in(stocked), "1")
    with pytest.raises(UserError, match=r"--name is 'handbok'; .*did you mean 'handbook'\?"):
        manage.promote(kept_in(stocked), "1", "handbok")
    manage.promote(kept_in(stocked), "1", "handbook")
    assert release.champion(Place(stocked, "fraud")) is None


def test_an_empty_registry_says_how_to_fill_it(tmp_path):
    with pytest.raises(UserError, match="holds no model yet; `nightshift run` registers one"):
        manage.models(kept_in(str(tmp_path / "registry")))


def test_stop_ends_every_endpoint_of_the_registry(stocked, serve, capsys):
    state = serve(1)
    manage.stop(kept_in(stocked))
    with pytest.raises(httpx.ConnectError):
        httpx.get(state.url)
    manage.stop(kept_in(stocked))
    assert capsys.readouterr().out == "stopped the endpoint of fraud\nno endpoint is running\n"
