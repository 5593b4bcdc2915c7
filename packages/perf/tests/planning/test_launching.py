"""What starts a planned training on a cluster."""

import pytest

from nightshift_perf.hardware import gpu
from nightshift_perf.planning import launching, search
from nightshift_perf.planning.layout import Cluster, ParallelLayout
from nightshift_perf.planning.models import preset
from nightshift_perf.planning.search import LayoutPlan
from nightshift_testkit.cluster import kinds, validation
from nightshift_testkit.cluster.cluster import CRDS


def plan_llama(nodes: int) -> LayoutPlan:
    cluster = Cluster(gpu("h100-80gb"), nodes, 8, 50e9)
    return search.plan(preset("llama3-8b"), cluster, ParallelLayout(64, zero=3))


@pytest.mark.skipif(not CRDS.exists(), reason=f"{CRDS} is missing")
def test_kubeflow_takes_the_trainjob_of_a_plan() -> None:
    definition = next(value for value in kinds.definitions(CRDS) if value["spec"]["names"]["kind"] == "TrainJob")
    trainjob = launching.build_trainjob(plan_llama(2), "meta/Llama 3.1")

    for kind in kinds.custom(definition):
        validation.validate(kind, trainjob)
    assert trainjob["metadata"]["name"] == "meta-llama-3-1"


def test_the_flags_of_a_planned_trainjob_are_in_its_config_map() -> None:
    trainer = launching.build_trainjob(plan_llama(2), "llama")["spec"]["trainer"]

    variables = {entry["name"]: entry["valueFrom"]["configMapKeyRef"]["key"] for entry in trainer["env"]}
    used = {word[2:-1]: word for word in trainer["command"] if word.startswith("$(")}
    assert trainer["numProcPerNode"] == 8
    assert set(used) == set(variables) and {"CONFIG": "config", "MODEL": "model"}.items() <= variables.items()


def test_processes_of_one_node_meet_without_an_address() -> None:
    assert launching.describe_launch(plan_llama(1)) == (
        "python -m nightshift.models.neural --max-restarts 3 --nproc-per-node 8 --standalone -m components.training"
    )
    assert "PET_MASTER_ADDR" in launching.describe_launch(plan_llama(2))
