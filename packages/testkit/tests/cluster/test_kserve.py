"""What KServe's webhook refuses of canaries."""

from collections.abc import Callable

import pytest

from nightshift_testkit.cluster.kinds import Json, ResourceKind
from nightshift_testkit.cluster.kserve import MODE, refuse_canaries
from nightshift_testkit.cluster.problems import StatusError

KIND = ResourceKind("serving.kserve.io", "v1beta1", "InferenceService", "inferenceservices")


def predictor(**fields: object) -> Json:
    container = {"name": "kserve-container", "env": [{"name": "STORAGE_URI", "value": "s3://bucket/1"}]}
    return {"minReplicas": 2, "containers": [container]} | fields


def service() -> Json:
    canaries = [{"predictor": predictor(name=name), "trafficPercent": 50} for name in ("b", "c")]
    spec = {"predictor": predictor(name="a", maxReplicas=4), "canary": canaries}
    return {"metadata": {"name": "fraud", "annotations": {MODE: "Standard"}}, "spec": spec}


BROKEN: dict[str, Callable[[Json], object]] = {
    "canary is only supported in Standard deployment mode": lambda value: value["metadata"].pop("annotations"),
    "canary requires a stable predictor with a model": lambda value: value["spec"]["predictor"].pop("containers"),
    r"canary\[1\] predictor\.name is required": lambda value: canary(value).pop("name"),
    r'canary predictor\.name "b" is duplicated': lambda value: canary(value).update(name="b"),
    r'predictor\.name "a" conflicts with stable predictor name': lambda value: canary(value).update(name="a"),
    r'canary "c" must not set maxReplicas': lambda value: canary(value).update(maxReplicas=3),
    r'canary "c" must not set workerSpec': lambda value: canary(value).update(workerSpec={}),
    r'canary "c" minReplicas \(3\) must not exceed .* \(2\)': lambda value: canary(value).update(minReplicas=3),
    r"sum of canary trafficPercent values \(101\)": lambda value: value["spec"]["canary"][1].update(trafficPercent=51),
}


def canary(value: Json) -> Json:
    last: Json = value["spec"]["canary"][-1]["predictor"]
    return last


@pytest.mark.parametrize("message", BROKEN)
def test_each_rule_about_canaries_is_enforced_and_the_service_is_taken_without_a_mistake(message: str) -> None:
    value = service()
    refuse_canaries(KIND, value)
    BROKEN[message](value)
    with pytest.raises(StatusError, match=message):
        refuse_canaries(KIND, value)
