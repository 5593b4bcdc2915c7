import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from nightshift.contracts.state import DeploymentTarget, State
from nightshift.runtime.errors import UserError
from pipelines import arguments, ir
from pipelines.environments import local
from tests.components.states import state


def test_a_state_is_read_as_it_was_written() -> None:
    kubeflow = {"endpoint": "http://kubeflow", "experiment": "nightshift"}
    parsed = State.parse(state("s3://bucket", target="record-only", kubeflow=kubeflow))

    assert (parsed.lake, parsed.checkpoints) == ("s3://bucket/lake", "s3://bucket/checkpoints")
    assert (parsed.target, parsed.kubeflow) == (DeploymentTarget.RECORD_ONLY, kubeflow)
    assert State.from_mapping(json.loads(json.dumps(parsed.dump()))) == parsed
    with pytest.raises(FrozenInstanceError):
        parsed.lake = "/elsewhere"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"target": "locl"},
            r"state.target is 'locl'; allowed: local, register-only, record-only; did you mean",
        ),
        ({"target": None}, "state.target is None; allowed: local"),
        ({"laek": "/lake"}, r"state.laek: unknown; allowed here: audit, .*; did you mean 'lake'\?"),
        ({"audit": 3}, "state.audit is 3; give a folder or a URI, such as s3://bucket/audit"),
        ({"dask": 2}, "state.dask is 2; write tcp"),
        ({"kubeflow": "http://x"}, "state.kubeflow is 'http://x'; give an object, or {}"),
    ],
)
def test_a_wrong_field_is_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        State.parse(state("/here", **changed))


@pytest.mark.parametrize("dask", ["scheduler:8786", "local", "local:0", "tcp://scheduler", "http://scheduler:8787"])
def test_an_address_that_is_no_dask_clusters_is_refused_with_what_is_allowed(dask: str) -> None:
    message = f"state.dask is '{dask}'; write tcp://<host>:<port>, .* such as local:2, or leave it out"
    with pytest.raises(UserError, match=message):
        State.parse(state("/here", dask=dask))


@pytest.mark.parametrize(("text", "message"), [("{", "--state is not JSON"), ("[]", r"state is \[\]; it takes an ob")])
def test_what_is_no_object_is_named(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        State.parse(text)


def test_a_run_takes_the_place_then_what_was_compiled_then_what_was_asked_for(tmp_path: Any) -> None:
    compiled = {"lake": "/lustre/lake", "target": "register-only"}
    pipeline = ir.Pipeline("sample", {"state": ir.Parameter("STRUCT", compiled)}, (), b"")
    options = {"state": {"audit": "/audit"}, "state.target": "record-only"}

    gathered = arguments.gather_arguments(pipeline, options, local(tmp_path).dump())["state"]

    assert gathered == local(tmp_path).dump() | {"lake": "/lustre/lake", "audit": "/audit", "target": "record-only"}
