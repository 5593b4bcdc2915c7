"""What is peculiar to LLMInferenceServices; the rest is in `test_targets.py`."""

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from components.release.targets import NoAnswerError, rollout
from components.release.targets.llm_inference_service import LLMSettings, parse_completion
from infra.terraform import INFRA
from nightshift.runtime.errors import UserError
from nightshift_testkit.cluster.cluster import CRDS
from nightshift_testkit.cluster.kinds import Json, custom
from nightshift_testkit.cluster.validation import validate
from tests.components.release.targets.llm_inference_service import GroupControllers, platform
from tests.components.release.targets.versions import TEXTS, Fleet

DEFINITION = CRDS / "llminferenceservices.serving.kserve.io.json"
PROMETHEUS = "http://prometheus.monitoring:9090"


@pytest.fixture
def fleet(fleet: Fleet) -> Fleet:
    return fleet.select_kind(TEXTS)


@pytest.fixture
def cluster(fleet: Fleet, tmp_path: Path) -> Iterator[GroupControllers]:
    with platform(fleet, tmp_path) as controllers:
        yield controllers


def spec(cluster: GroupControllers) -> Json:
    """What is wanted of the only version."""
    (value,) = cluster.objects
    return dict(value["spec"])


def test_replicas_are_added_by_the_requests_that_wait_at_them(cluster: GroupControllers, fleet: Fleet) -> None:
    rollout(cluster.target(), fleet.split(v1=1))
    assert spec(cluster)["replicas"] == 1 and "scaling" not in spec(cluster)
    rollout(cluster.target(prometheus=PROMETHEUS, queued=4, max_replicas=8), fleet.split(v1=1))
    scaling = spec(cluster)["scaling"]
    (trigger,) = scaling["keda"]["triggers"]
    assert (scaling["minReplicas"], scaling["maxReplicas"]) == (1, 8)
    assert trigger["metadata"] == {
        "serverAddress": PROMETHEUS,
        "query": 'sum(vllm:num_requests_waiting{namespace="nightshift", pod=~"fraud-1-kserve-[0-9a-z]+-[0-9a-z]+"})',
        "threshold": "4",
    }


def test_a_model_that_needs_several_gpus_has_its_tensors_divided(cluster: GroupControllers, fleet: Fleet) -> None:
    rollout(cluster.target(gpus=4), fleet.split(v1=1))
    (container,) = spec(cluster)["template"]["containers"]
    assert (spec(cluster)["parallelism"], container["resources"]) == (
        {"tensor": 4}, {"limits": {"nvidia.com/gpu": "4"}},
    )  # fmt: skip
    with pytest.raises(UserError, match=r"state\.serving\.gpus is 3; a replica's server uses 1 or 2 or 4 or 8"):
        LLMSettings("nightshift", "vllm", "serving", "token", gpus=3)
    with pytest.raises(UserError, match=r"min_replicas is 0; .* keeps at least 1 replica"):
        LLMSettings("nightshift", "vllm", "serving", "token", min_replicas=0)


def test_a_change_of_settings_leaves_the_shares_as_they_are(cluster: GroupControllers, fleet: Fleet) -> None:
    split = fleet.split(v1=0.75, v2=0.25)
    rollout(cluster.target(), split)
    weights: list[dict[int, float]] = []
    cluster.counted.watch = lambda: weights.append(cluster.shares())
    rollout(cluster.target(min_replicas=2), split)
    assert weights and all(shares == {1: 0.75, 2: 0.25} for shares in weights)
    assert [value["spec"]["replicas"] for value in cluster.objects] == [2, 2]


def test_the_release_steps_role_allows_what_is_called_and_no_more(cluster: GroupControllers, fleet: Fleet) -> None:
    for split in (fleet.split(v1=1), fleet.split(v1=0.95, v2=0.05), fleet.split(v2=1)):
        rollout(cluster.target(), split)
    cluster.target().clean(())
    verbs = {call.partition("_namespaced")[0].replace("replace", "update") for call in cluster.counted.calls}
    manifests = yaml.safe_load_all((INFRA / "cluster/namespaces/nightshift/release.yaml").read_text())
    rules = {rule["resources"][0]: rule["verbs"] for rule in next(manifests)["rules"]}
    assert set(rules["llminferenceservices"]) == verbs


def test_without_prometheus_nothing_is_measured(cluster: GroupControllers, fleet: Fleet) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert cluster.target().measure(fleet.split(v1=1)[0], now, now) is None


def test_the_score_is_the_bits_per_byte_of_the_text_that_the_completion_repeats() -> None:
    tokens = {"tokens": ["<s>", "ni", "ght", "!"], "token_logprobs": [None, math.log(1 / 2), math.log(1 / 16), -0.1]}
    body = json.dumps({"choices": [{"text": "night!", "logprobs": tokens}]}).encode()
    assert parse_completion("http://model", body, "night") == {"predictions": [{"score": pytest.approx((1 + 4) / 5)}]}


@pytest.mark.parametrize("choices", [[], [{"text": "night"}], [{"logprobs": {"token_logprobs": [None, None, -1]}}]])
def test_a_completion_without_log_probabilities_is_no_answer(choices: list[Json]) -> None:
    with pytest.raises(NoAnswerError, match="does not answer with log-probabilities"):
        parse_completion("http://model", json.dumps({"choices": choices}).encode(), "night")


@pytest.mark.skipif(not DEFINITION.exists(), reason=f"{DEFINITION} is missing")
@pytest.mark.parametrize("settings", [{}, {"prometheus": PROMETHEUS, "gpus": 2}])
def test_kserves_own_definition_takes_the_object(
    cluster: GroupControllers, fleet: Fleet, settings: dict[str, object]
) -> None:
    rollout(cluster.target(**settings), fleet.split(v1=1))
    kinds = {kind.version: kind for kind in custom(json.loads(DEFINITION.read_text()))}
    validate(kinds["v1alpha2"], cluster.objects[0])
