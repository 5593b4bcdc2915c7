"""Releases on SageMaker, as moto has it and `aws.py` completes it."""

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from components.release.core import Slo
from components.release.targets import BadVersionError, VersionShare, rollout
from components.release.targets.sagemaker import AMI, Clients, Place, SageMaker
from nightshift.errors import UnavailableError, UserError
from tests.components.release.targets.aws import Aws, aws
from tests.components.release.targets.versions import Fleet, killed_everywhere, killed_on_the_way, page

PLACE = Place("arn:aws:iam::123456789012:role/serving", "123456789012.example.com/nightshift/serving:0.2.0")
TAGS = [{"Key": "nightshift", "Value": "fraud"}]


@pytest.fixture(scope="module")
def server(fleet: Fleet) -> Iterator[Aws]:
    with aws(fleet) as found:
        yield found


@pytest.fixture
def account(server: Aws) -> Aws:
    server.clear()
    return server


def broken() -> bytes:
    said = {"Error": {"Code": "ModelError", "Message": "it answers 500"}}
    raise ClientError(said | {"ResponseMetadata": {"HTTPStatusCode": 424}}, "InvokeEndpoint")


def target(account: Aws) -> SageMaker:
    return SageMaker("fraud", PLACE, account.clients, account.pause)


def test_versions_come_and_go_by_shares_and_nothing_of_the_old_ones_stays(account: Aws, versions: Fleet) -> None:
    endpoint = target(account)
    rollout(endpoint, versions.parts(v1=1))
    assert endpoint.serving() == {1: 1}
    rollout(endpoint, versions.parts(v1=0.75, v2=0.25), versions.parts(v1=1))
    assert endpoint.serving() == {1: 0.75, 2: 0.25}
    assert _answers(account, versions) == pytest.approx(0.25, abs=0.08)
    rollout(endpoint, versions.parts(v2=1), versions.parts(v1=0.75, v2=0.25))
    assert endpoint.serving() == {2: 1}
    assert _answers(account, versions) == 1

    state = account.state()
    assert [len(state[kind]) for kind in ("models", "configs", "endpoints")] == [1, 1, 1]
    assert state["models"][0].startswith("fraud-v2-")


def _answers(account: Aws, fleet: Fleet) -> float:
    """The share of requests, 300, that version 2 answers."""
    part = fleet.parts(v2=1)[0]
    counts: Counter[bool] = Counter()
    for _ in range(300):
        answer = account.runtime.invoke_endpoint(
            EndpointName="fraud", ContentType="application/json", Body=json.dumps(part.request)
        )
        score = json.loads(answer["Body"].read())["predictions"][0]["score"]
        counts[abs(score - part.score) < 1e-6] += 1
    return counts[True] / 300


def test_a_larger_share_is_one_call_and_no_change_is_none(account: Aws, fleet: Fleet) -> None:
    rollout(target(account), fleet.parts(v1=0.95, v2=0.05))
    account.counted.calls.clear()
    rollout(target(account), fleet.parts(v1=0.75, v2=0.25))
    assert account.counted.changes == ["UpdateEndpointWeightsAndCapacities"]
    account.counted.calls.clear()
    rollout(target(account), fleet.parts(v1=0.75, v2=0.25))
    assert account.counted.changes == []


@pytest.mark.parametrize("how", ["broken", "wrong"])
def test_a_version_that_does_not_start_or_answers_wrongly_leaves_what_was_there(
    account: Aws, fleet: Fleet, how: str
) -> None:
    bad: list[VersionShare] = getattr(fleet, how)()
    said = {"broken": "did not pass the ping health check", "wrong": "where its files score 0.123"}[how]
    with pytest.raises(UserError, match=said):
        rollout(target(account), bad)
    assert account.state() == {"models": [], "configs": [], "endpoints": {}}

    rollout(target(account), fleet.parts(v1=1))
    before = account.state()
    with pytest.raises(UserError, match=said):
        rollout(target(account), bad, fleet.parts(v1=1))
    assert target(account).serving() == {1: 1}
    if how == "broken":  # the other one was put back under its configuration
        assert account.state() == before


@pytest.mark.parametrize("answer", [broken, page])
def test_a_version_that_starts_and_gives_no_answer_leaves_what_was_there(
    account: Aws, fleet: Fleet, answer: Callable[[], bytes]
) -> None:
    rollout(target(account), fleet.parts(v1=1))
    with fleet.silent(answer) as bad, pytest.raises(BadVersionError, match="version 3 does not answer: "):
        rollout(target(account), bad, fleet.parts(v1=1))
    assert target(account).serving() == {1: 1}


def test_killed_before_any_call_it_is_brought_about_by_the_next_process(account: Aws, fleet: Fleet) -> None:
    steps = [fleet.parts(v1=1), fleet.parts(v1=0.95, v2=0.05), fleet.parts(v1=0.5, v2=0.5), fleet.parts(v2=1)]
    killed = killed_on_the_way(
        steps,
        lambda: target(account),
        lambda act: killed_everywhere(account.counted, act, account.saved(), account.state),
    )
    assert killed > 30
    assert target(account).serving() == {2: 1}


def test_killed_while_a_bad_version_is_tried_the_next_process_puts_everything_back(account: Aws, fleet: Fleet) -> None:
    rollout(target(account), fleet.parts(v1=1))
    before = account.state()

    def act() -> None:
        with pytest.raises(UserError):
            rollout(target(account), fleet.broken(), fleet.parts(v1=1))

    assert killed_everywhere(account.counted, act, account.saved(), account.state) > 10
    assert account.state() == before


def test_what_bears_the_name_and_is_not_ours_is_refused_and_left_alone(account: Aws, fleet: Fleet) -> None:
    rollout(target(account), fleet.parts(v1=1))
    (model,), (config,) = (account.state()[kind] for kind in ("models", "configs"))
    account.backend._models[model].primary_container["Image"] = "another"
    account.backend.endpoints.clear()
    account.backend.endpoint_configs.clear()
    with pytest.raises(UserError, match=f"model '{model}' exists with other content"):
        target(account).apply(fleet.parts(v1=1))
    assert account.state()["endpoints"] == {}

    account.backend._models.clear()
    rollout(target(account), fleet.parts(v1=1))
    account.backend.endpoints["fraud"].tags = []
    before = account.state()
    for act in (lambda: rollout(target(account), fleet.parts(v2=1)), lambda: target(account).clean(())):
        with pytest.raises(UserError, match="endpoint 'fraud' exists and has no tag nightshift=fraud"):
            act()
    assert account.state() == before and config in before["configs"]


def test_another_use_case_whose_name_begins_alike_keeps_what_is_its_own(account: Aws, fleet: Fleet) -> None:
    other = SageMaker("fraud-v2", PLACE, account.clients, account.pause)
    rollout(other, fleet.parts(v1=1))
    rollout(target(account), fleet.parts(v1=1))
    rollout(target(account), fleet.parts(v2=1))
    target(account).clean(())
    state = account.state()
    assert [len(state[kind]) for kind in ("models", "configs", "endpoints")] == [1, 1, 1]
    assert other.serving() == {1: 1}


def test_a_server_that_does_not_answer_may_be_asked_again_and_a_refusal_not(account: Aws, fleet: Fleet) -> None:
    import boto3
    from botocore.config import Config

    nowhere = boto3.client(
        "sagemaker", endpoint_url="http://127.0.0.1:9", region_name="us-east-1", aws_access_key_id="a",
        aws_secret_access_key="b", config=Config(retries={"total_max_attempts": 1}),
    )  # fmt: skip
    with pytest.raises(UnavailableError, match="SageMaker does not answer"):
        SageMaker("fraud", PLACE, Clients(nowhere, None, None), account.pause).apply(fleet.parts(v1=1))
    account.counted.calls.clear()
    with pytest.raises(UnavailableError, match="endpoint 'fraud' is still Creating"):
        SageMaker("fraud", PLACE, account.clients, lambda _: None).apply(fleet.parts(v1=1))


def test_what_a_variants_requests_were_like_is_what_cloudwatch_says_of_them(account: Aws, fleet: Fleet) -> None:
    since, until = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 2, tzinfo=UTC)
    points = {
        "Invocations": [{"Sum": 900.0}, {"Sum": 100.0}],
        "Invocation5XXErrors": [{"Sum": 20.0}],
        "ModelLatency": [{"ExtendedStatistics": {"p99": value}} for value in (4000.0, 61000.0)],
    }
    with Stubber(account.cloudwatch) as cloudwatch:
        for name, found in points.items():
            which = {"ExtendedStatistics": ["p99"]} if name == "ModelLatency" else {"Statistics": ["Sum"]}
            asked = {
                "Namespace": "AWS/SageMaker",
                "MetricName": name,
                "Dimensions": [
                    {"Name": "EndpointName", "Value": "fraud"}, {"Name": "VariantName", "Value": "v2"},
                ],
                "StartTime": since, "EndTime": until, "Period": 3600,
            }  # fmt: skip
            cloudwatch.add_response("get_metric_statistics", {"Datapoints": found}, asked | which)
        assert target(account).measured(fleet.parts(v2=0.05)[0], since, until) == Slo(1000, 20, 61.0)


def test_an_instance_with_a_gpu_has_the_server_use_it(account: Aws, fleet: Fleet) -> None:
    place = dataclasses.replace(PLACE, instance="ml.g4dn.xlarge")
    rollout(SageMaker("fraud", place, account.clients, account.pause), fleet.parts(v1=1))
    (config,) = account.state()["configs"]
    (variant,) = account.clients.sagemaker.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    assert (variant["InstanceType"], variant["InferenceAmiVersion"]) == (
        "ml.g4dn.xlarge",
        "al2023-ami-sagemaker-inference-gpu-4-1",
    )
    made = account.clients.sagemaker.describe_model(ModelName=variant["ModelName"])
    assert made["PrimaryContainer"]["Environment"] == {"NIGHTSHIFT_DEVICE": "cuda"}


def test_the_families_with_gpus_are_those_that_sagemaker_has(account: Aws) -> None:
    shapes = account.clients.sagemaker.meta.service_model
    families = {each.split(".")[1] for each in shapes.shape_for("ProductionVariantInstanceType").enum}
    with_gpus = {each for each in families if dataclasses.replace(PLACE, instance=f"ml.{each}.xlarge").has_gpu}
    assert {"g4dn", "g5", "g6", "p4d", "p5"} <= with_gpus
    assert not {"m5", "c7g", "r6g", "t2", "inf2", "trn1"} & with_gpus
    assert AMI in shapes.shape_for("ProductionVariantInferenceAmiVersion").enum
