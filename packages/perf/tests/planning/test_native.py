"""The plans of Nightshift's own trainer."""

import pytest

from nightshift.config.neural import Fit, Trainer
from nightshift.models.neural import mesh
from nightshift_perf.hardware import gpu
from nightshift_perf.planning import native, search
from nightshift_perf.planning.layout import Cluster, ParallelLayout
from nightshift_perf.planning.models import Transformer, preset

NETWORK = 50 / 8 * 1e9  # bytes/s of a GPU


@pytest.mark.parametrize(
    ("name", "nodes", "per_node", "batch"),
    (("llama-10b", 2, 4, 64), ("llama-13b", 8, 8, 1024), ("llama3-8b", 1, 8, 16), ("llama3-70b", 8, 8, 256)),
)
def test_the_trainer_runs_the_layout_that_is_proposed(name: str, nodes: int, per_node: int, batch: int) -> None:
    cluster = Cluster(gpu("a100-80gb"), nodes, per_node, NETWORK)

    proposal = search.propose_plan(preset(name), cluster, ParallelLayout(batch))

    layout = proposal.layout
    is_shared = layout.zero == 3
    trainer = {
        "nodes": nodes,
        "tensor": layout.tensor,
        "context": layout.context,
        "pipeline": layout.pipeline,
        "schedule": {1: "1f1b", 2: "interleaved"}[layout.interleave],
        "shard": layout.shards(cluster) if is_shared else 1,
        "zero": 0 if is_shared else layout.zero,
    }
    fit = {"batch_size": batch, "microbatches": layout.micro_batches(cluster), "precision": layout.precision}
    fit["recompute"] = str(layout.checkpointing)
    mesh.check_layout(Fit.parse_value(fit), Trainer.parse_value(trainer), cluster.gpus)
    assert isinstance(proposal.model, Transformer)
    assert proposal.memory.states == native.states(proposal.model, cluster, layout)
