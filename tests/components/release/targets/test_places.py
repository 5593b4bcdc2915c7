"""Which target a state means."""

from pathlib import Path
from typing import Any

import pytest

from components.common.contracts.state import State
from components.common.errors import UserError
from components.release.targets import places
from components.release.targets.local import Local
from components.release.targets.sagemaker import SageMaker
from tests.components.states import state

ROLE, IMAGE = "arn:aws:iam::123456789012:role/serving", "registry.example.com/nightshift/serving:0.2.0"

KSERVE = {"kind": "kserve", "namespace": "nightshift", "image": IMAGE, "account": "serving", "secret": "token"}


def found(folder: Path, **changed: Any) -> Any:
    return places.of(State.parse(state(folder, **changed)), "fraud")


def test_without_a_place_it_is_this_machine_or_nowhere(tmp_path: Path) -> None:
    assert isinstance(found(tmp_path, target="local"), Local)
    assert found(tmp_path, target="register-only") is None


def test_numbers_may_come_as_floats_as_a_pipeline_passes_them_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    endpoint = found(tmp_path, serving={"kind": "sagemaker", "role": ROLE, "image": IMAGE, "count": 2.0})
    assert isinstance(endpoint, SageMaker)
    assert repr(endpoint._place.count) == "2"


@pytest.mark.parametrize(
    ("serving", "said"),
    [
        ({"kind": "vertex"}, "state.serving.kind is 'vertex'; allowed: sagemaker, kserve, knative"),
        ({"kind": "sagemaker", "rol": ROLE}, "state.serving.rol: unknown; .* did you mean 'role'"),
        ({"kind": "sagemaker", "role": ROLE}, "state.serving: .*image.*; see docs/release.md"),
        ({"kind": "kserve", "namespace": "nightshift"}, "state.serving: .*image"),
        (KSERVE | {"min_replicas": 0}, "min_replicas is 0 and cpu_percent 70; a Deployment keeps at least 1"),
        (KSERVE | {"max_replicas": 1}, "min_replicas is 2 and max_replicas 1; allowed: 0 <= min_replicas"),
        (KSERVE | {"kind": "knative", "cpu_percent": 50}, "state.serving.cpu_percent: unknown"),
    ],
)
def test_a_wrong_place_is_named_with_what_is_allowed(tmp_path: Path, serving: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        found(tmp_path, serving=serving)
