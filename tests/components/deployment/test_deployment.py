import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from components.deployment import component
from components.deployment.__main__ import body
from components.deployment.__main__ import deploy as deploy_within
from nightshift import registry, storage
from nightshift.contracts import package, tables
from nightshift.contracts.package import DecisionRule
from nightshift.contracts.section import read_section
from nightshift.contracts.verdict import Verdict
from nightshift.local import endpoint
from nightshift.registry import approvals, release_record
from nightshift.registry.approvals import ApprovalReason
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.runtime.progress import Patience
from tests.components.states import state
from tests.nightshift.tabular.online import streams

pytestmark = pytest.mark.slow

CONFIG = Path(__file__).parents[3] / "pipelines" / "configs" / "fraud.yaml"
METRICS = {"auc_roc": 0.87, "average_precision": 0.61, "precision_at_k": 0.29, "precision_at_k_ceiling": 0.4}


@pytest.fixture
def folder(tmp_path, stocked):
    yield tmp_path
    endpoint.stop(stocked)


def flags(
    folder: Path, model: str, decision: str = "pass", target: str = "local", registry: str | None = None
) -> list[str]:
    """Write the verdicts of a model and return the step's flags."""
    kept = registry or f"{folder}/registry"
    champion = release_record.champion(ReleaseRef(kept, "fraud", f"{folder}/audit"))
    verdict = Verdict(
        gate="evaluation",
        decision=decision,
        reasons=["It was judged."],
        measures=[{"name": name, "value": value} for name, value in (METRICS | {"auc_roc": None}).items()],
        subject=package.load(model).sha256,
        compared_with=champion and {"version": champion.version, "sha256": champion.sha256},
    )
    advice = {"gate": "drift", "decision": "fail", "reasons": ["Amounts grew."], "measures": [], "advisory": True}
    verdict.write(f"{folder}/evaluation/verdict.json")
    Verdict(gate="skew", decision="pass", reasons=["Nothing differs."], measures=[], subject=verdict.subject).write(
        f"{folder}/evaluation/skew.json"
    )
    storage.write_bytes(f"{folder}/evaluation/model_card.md", b"# Model card\n")
    Verdict(subject=verdict.subject, **advice).write(f"{folder}/drift/verdict.json")
    online = streams.written([], streams.config(), 1, f"{folder}/lake")  # its events give other features
    tables.write_table(f"{folder}/features", tables.Table("features", [], {"online": online}))
    values = {
        "config": json.dumps(yaml.safe_load(CONFIG.read_text())),
        "date": "2018-08-14",
        "features": f"{folder}/features",
        "model": model,
        "evaluation": f"{folder}/evaluation",
        "drift": f"{folder}/drift",
        "state": state(folder, target=target, registry=kept),
        "run": "run-1",
        "deployment": f"{folder}/deployment.json",
    }
    return [part for name, value in values.items() for part in (f"--{name}", value)]


def releases(folder: Path) -> ReleaseRef:
    return ReleaseRef(f"{folder}/registry", "fraud")


def deploy(folder: Path, model: str, decision: str = "pass", target: str = "local", **sections: dict) -> dict:
    config = json.dumps(yaml.safe_load(CONFIG.read_text()) | sections)
    body(
        StepContext(
            component.deployment.parser().parse_args([*flags(folder, model, decision, target), "--config", config])
        )
    )
    return json.loads((folder / "deployment.json").read_text())


@pytest.mark.xdist_group("tracking")
def test_a_model_is_promoted_through_a_tracking_server_and_the_next_run_compares_with_it(
    tracking_server, tmp_path, save_model
):
    for weight, day in ((0.4, "2018-08-01"), (0.5, "2018-08-02")):
        words = flags(tmp_path, save_model(weight, day), target="register-only", registry=tracking_server)
        body(StepContext(component.deployment.parser().parse_args([*words, "--run", day])))

    deployed = json.loads((tmp_path / "deployment.json").read_text())
    assert (deployed["decision"], deployed["version"], deployed["previous_champion_version"]) == ("promoted", 2, 1)
    champion = release_record.champion(ReleaseRef(tracking_server, "fraud", f"{tmp_path}/audit"))
    assert (champion.version, package.load(champion.uri).sha256) == (2, deployed["sha256"])


def test_the_model_card_lies_in_the_registry_beside_the_model_with_the_drift_of_its_day(folder, save_model):
    deploy(folder, save_model(0.4, "2018-08-01"), target="register-only")

    version = registry.versions(f"{folder}/registry", "fraud")[-1]
    card = (Path(version.uri).parent / "model_card.md").read_text()
    assert card == "# Model card\n\n## Drift at training time\n\n- **fail**\n- Amounts grew.\n"


def test_an_example_that_misses_a_number_has_null_in_the_record(folder, save_model):
    uri = save_model(0.4, "2018-08-01")
    model = package.load(uri)
    nullable = model.preprocessing.model_copy(update={"nullable": ["amount"]})
    model.model_copy(update={"preprocessing": nullable}).write(f"{uri}/{package.MANIFEST}")

    assert deploy(folder, uri, target="register-only")["example"]["amount"] is None


def test_a_promoted_model_is_registered_with_its_lineage_and_answers(folder, save_model):
    report = deploy(folder, save_model(0.4, "2018-08-01"))
    version = release_record.champion(releases(folder))
    assert {key: report[key] for key in ("model", "version", "decision", "champion_version", "endpoint_checked")} == {
        "model": "fraud",
        "version": 4,
        "decision": "promoted",
        "champion_version": 4,
        "endpoint_checked": True,
    }
    assert report["previous_champion_version"] is None
    assert report["sha256"] == version.sha256
    assert report["reasons"] == ["It was judged.", "Nothing differs.", "Drift: fail."]
    section = read_section(f"{folder}/deployment.json")
    assert (section.outcome.headline, section.outcome.tone) == ("Version 4 is live", "good")
    assert section.blocks[-1].text == report["curl"]
    answer = httpx.post(f"{report['endpoint']}/score", json={"instances": [report["example"]]})
    assert answer.json()["version"] == version.version == 4
    assert (
        version.tags.items()
        >= {
            "logical_date": "2018-08-14",
            "parent_run": "run-1",
            "train_last": "2018-08-01",
            "events_sha256": "e" * 64,
            "features_sha256": "f" * 64,
            "drift": "fail",
        }.items()
    )
    assert json.loads(version.tags["config"])["name"] == "fraud"
    assert version.tags["code_version"].startswith("0.")


def test_a_model_whose_features_differ_online_is_kept_out(folder, save_model):
    release_record.promote(releases(folder), 3)
    words = flags(folder, save_model(0.4, "2018-08-01"), target="register-only")
    skew = json.loads((folder / "evaluation" / "skew.json").read_text())
    (folder / "evaluation" / "skew.json").write_text(json.dumps(skew | {"decision": "fail", "reasons": ["1 differs."]}))
    body(StepContext(component.deployment.parser().parse_args(words)))
    report = json.loads((folder / "deployment.json").read_text())
    assert (report["decision"], report["reasons"]) == ("kept", ["1 differs.", "Drift: fail."])


def test_a_kept_champion_is_served_when_nothing_was(folder, save_model):
    release_record.promote(releases(folder), 3)
    report = deploy(folder, save_model(0.4, "2018-08-01"), decision="fail")
    assert (report["decision"], report["version"]) == ("kept", 4)
    assert report["champion_version"] == report["previous_champion_version"] == 3
    assert httpx.get(f"{report['endpoint']}/model").json()["version"] == 3


def test_the_same_run_again_keeps_its_own_champion_and_its_endpoint(folder, save_model):
    first = deploy(folder, save_model(0.4, "2018-08-01"))
    again = deploy(folder, save_model(0.4, "2018-08-01"))
    assert (again["version"], again["decision"]) == (4, "kept")
    assert again["reasons"][0] == "Version 4 is already the champion."
    assert again["endpoint"] == first["endpoint"]


@pytest.mark.parametrize("champion", [3, None])
def test_an_attempt_that_was_killed_after_promoting_is_finished_with_the_same_decision(folder, save_model, champion):
    if champion:
        release_record.promote(releases(folder), champion)
    words = flags(folder, save_model(0.4, "2018-08-01"), target="register-only")
    records = []
    for _ in range(2):
        body(StepContext(component.deployment.parser().parse_args(words)))
        records.append(storage.read_json(f"{folder}/deployment.json"))

    assert records[0] == records[1]
    assert (records[1]["decision"], records[1]["previous_champion_version"]) == ("promoted", champion)
    assert release_record.champion(releases(folder)).version == 4
    assert release_record.predecessor(releases(folder), release_record.read(releases(folder))) == champion


def test_another_run_of_the_same_model_keeps_the_champion_that_it_is(folder, save_model):
    words = flags(folder, save_model(0.4, "2018-08-01"), target="register-only")
    body(StepContext(component.deployment.parser().parse_args(words)))
    body(StepContext(component.deployment.parser().parse_args([*words, "--run", "run-2"])))
    assert storage.read_json(f"{folder}/deployment.json")["decision"] == "kept"


def test_a_backfill_leaves_the_champion(folder, save_model):
    release_record.promote(releases(folder), 3)
    report = deploy(folder, save_model(0.4, "2018-07-20"), target="register-only")
    assert report["decision"] == "kept"
    assert "newer than the champion's" in report["reasons"][0]
    assert release_record.champion(releases(folder)).version == 3


def test_a_version_that_was_rolled_back_is_not_promoted_by_the_same_run_again(folder, save_model):
    release_record.promote(releases(folder), 3)
    deploy(folder, save_model(0.4, "2018-08-01"), target="register-only")
    release_record.rollback(releases(folder))
    report = deploy(folder, save_model(0.4, "2018-08-01"), target="register-only")
    assert (report["decision"], report["champion_version"]) == ("kept", 3)


def test_where_versions_are_released_in_steps_a_promotion_begins_a_release_one_at_a_time(folder, save_model):
    gradual = {"release": {"gradual": True}}
    first = deploy(folder, save_model(0.4, "2018-08-01"), target="register-only", **gradual)
    assert first["decision"] == "promoted"  # there was no champion to compare with

    for _ in range(2):  # the second one as after a kill
        report = deploy(folder, save_model(0.5, "2018-08-02"), target="register-only", **gradual)
        assert (report["decision"], report["champion_version"]) == ("kept", 4)
        assert report["reasons"][0] == "Version 5 is released in steps."
    report = deploy(folder, save_model(0.6, "2018-08-03"), target="register-only", **gradual)
    assert report["reasons"][0] == "Version 5 is being released; one at a time."

    record = release_record.read(releases(folder))
    assert (record.stage, record.live.version, record.challenger.version) == ("shadow", 4, 5)
    assert [entry.action for entry in record.entries] == ["promoted", "started"]


def test_register_only_promotes_and_starts_nothing(folder, save_model):
    report = deploy(folder, save_model(0.4, "2018-08-01"), target="register-only")
    assert report["decision"] == "promoted"
    assert (report["endpoint"], report["endpoint_checked"], report["curl"]) == (None, False, None)
    assert endpoint.find_running(f"{folder}/registry", "fraud") is None


def test_without_a_champion_a_model_that_fails_the_gate_is_only_registered(folder, save_model):
    report = deploy(folder, save_model(0.4, "2018-08-01"), decision="fail")
    assert (report["decision"], report["version"], report["champion_version"]) == ("registered", 4, None)
    assert report["endpoint"] is None
    assert endpoint.find_running(f"{folder}/registry", "fraud") is None


def test_a_version_that_does_not_answer_does_not_become_the_champion(folder, save_model):
    release_record.promote(releases(folder), 3)
    model = save_model(0.4, "2018-08-01")
    report = deploy(folder, model, decision="fail")
    registered = registry.find(f"{folder}/registry", "fraud", 4)
    # the server finds other files than those that were registered
    other = package.load(registered.uri).model_copy(update={"decision": DecisionRule(threshold=0.9)})
    other.write(f"{registered.uri}/model.json")
    with pytest.raises(UserError, match="cannot serve version 4"):
        deploy(folder, model)
    assert release_record.champion(releases(folder)).version == 3
    assert httpx.get(f"{report['endpoint']}/model").json()["version"] == 3


def test_the_command_starts_a_registry_and_leaves_a_server_that_outlives_it(tmp_path, save_model):
    output = tmp_path / "output.json"
    argument = json.dumps({"outputs": {"outputFile": str(output), "artifacts": {"deployment": {"artifacts": [{}]}}}})
    command = [sys.executable, "-m", "components.deployment", *flags(tmp_path, save_model(0.4))]
    try:
        done = subprocess.run([*command, "--executor-input", argument], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        report = json.loads((tmp_path / "deployment.json").read_text())
        assert httpx.get(f"{report['endpoint']}/healthz").json()["version"] == 1
        assert "promoted: It was judged. Nothing differs. Drift: fail." in done.stderr
        assert "INFO" not in done.stderr
        assert "Warning" not in done.stderr
        metadata = json.loads(output.read_text())["artifacts"]["deployment"]["artifacts"][0]["metadata"]
        assert metadata["version"] == 1
    finally:
        assert endpoint.stop(f"{tmp_path}/registry") == ["fraud"]


def test_an_unknown_target_ends_the_command_with_one_line_and_code_2(tmp_path, save_model):
    command = [sys.executable, "-m", "components.deployment", *flags(tmp_path, save_model(0.4), target="remote")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert done.stderr == "deployment: state.target is 'remote'; allowed: local, register-only, record-only\n"


@pytest.mark.parametrize("module", ["components.deployment", "nightshift.serving"])
def test_help_imports_no_heavy_library(module):
    command = [sys.executable, "-X", "importtime", "-m", module, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"mlflow", "onnxruntime", "pandas", "sklearn", "torch"}, "imported too early"


def test_a_slow_endpoint_ends_the_step_with_1_the_record_says_what_is_live_and_the_next_try_goes_on(folder, save_model):
    first = deploy(folder, save_model(0.4, "2018-08-01"))
    server, where = endpoint.find_running(f"{folder}/registry", "fraud"), releases(folder)
    args = component.deployment.parser().parse_args([*flags(folder, save_model(0.5, "2018-08-02")), "--run", "run-2"])
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(UnavailableError, match="did not serve version 5"):
            deploy_within(StepContext(args), Patience(0.5, 60))
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert release_record.read(where).live.version == first["version"] == 4
    assert endpoint.find_version(f"{folder}/registry", "fraud") == 4
    body(StepContext(args))
    report = json.loads((folder / "deployment.json").read_text())
    assert (report["decision"], report["version"], report["previous_champion_version"]) == ("promoted", 5, 4)
    assert [entry.live.version for entry in release_record.read(where).entries] == [4, 5]
    assert len(registry.versions(f"{folder}/registry", "fraud")) == 5


def kill(_: registry.Version) -> None:
    raise UnavailableError("here")


def test_where_a_person_approves_versions_none_is_live_before_and_a_gate_that_fails_then_stops_it(folder, save_model):
    required = {"release": {"approval": "required"}}

    def train(quality: float, day: str, decision: str = "pass", run: str = "register-only") -> dict:
        return deploy(folder, save_model(quality, day), decision, run, **required)

    first = train(0.4, "2018-08-01")
    assert (first["decision"], first["champion_version"]) == ("waiting", None)
    assert first["reasons"][0] == "Version 4 waits for an approval; `nightshift approve 4 --reason ...` gives it."
    headline = read_section(f"{folder}/deployment.json").outcome.headline
    assert headline == "Version 4 waits for a person's approval; there is no champion"
    assert release_record.read(releases(folder)) is None
    approvals.approve(releases(folder), 4, ApprovalReason("the first"))
    assert release_record.read(releases(folder)).live.version == 4

    assert [train(0.5, "2018-08-02")["decision"] for _ in range(2)] == ["waiting", "waiting"]  # as after a kill
    assert train(0.5, "2018-08-02", "fail")["decision"] == "kept"
    with pytest.raises(UserError, match="version 5 of 'fraud' does not wait for an approval"):
        approvals.approve(releases(folder), 5, ApprovalReason("late"))
    assert train(0.5, "2018-08-02", run="record-only")["decision"] == "kept"
    assert approvals.read(releases(folder)).waiting == []

    assert train(0.6, "2018-08-03")["decision"] == "waiting"
    with pytest.raises(UnavailableError):  # killed between the approval and the promotion
        approvals.approve(releases(folder), 6, ApprovalReason("good"), kill)
    assert train(0.6, "2018-08-03", "fail")["decision"] == "kept"
    assert train(0.6, "2018-08-03")["decision"] == "promoted"
    assert release_record.read(releases(folder)).trail == [4, 6]


def test_without_the_setting_no_approval_is_read_or_written(folder, save_model):
    assert deploy(folder, save_model(0.4, "2018-08-01"), target="register-only")["decision"] == "promoted"
    assert [file.name for file in (folder / "registry" / "releases").iterdir()] == ["fraud.json"]
