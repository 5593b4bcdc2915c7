"""The plans of Nightshift's own trainer."""

from dataclasses import replace

import pytest

from nightshift.config.neural import Fit
from nightshift.models.neural import mesh
from nightshift.runtime.errors import UserError
from nightshift_perf.hardware import gpu
from nightshift_perf.planning import launching, native, search
from nightshift_perf.planning.layout import Checkpointing, Cluster, ParallelLayout
from nightshift_perf.planning.models import Transformer, preset

NETWORK = 50 / 8 * 1e9  # bytes/s of a GPU


@pytest.mark.parametrize(
    ("name", "nodes", "per_node", "batch"),
    (("llama-10b", 2, 4, 64), ("llama-13b", 8, 8, 1024), ("llama3-8b", 1, 8, 16), ("llama3-70b", 8, 8, 256)),
)
def test_the_trainer_runs_the_layout_that_is_proposed(name: str, nodes: int, per_node: int, batch: int) -> None:
    cluster = Cluster(gpu("a100-80gb"), nodes, per_node, NETWORK)

    proposal = search.propose_plan(preset(name), cluster, ParallelLayout(batch))

    fit, trainer = launching.describe_fit(proposal), launching.describe_trainer(proposal)
    mesh.check_layout(Fit.parse_value(fit), trainer, cluster.gpus)
    assert isinstance(proposal.model, Transformer)
    assert proposal.memory.states == native.states(proposal.model, cluster, proposal.layout)


def test_frozen_matrices_have_no_gradients_and_take_fewer_bytes_in_4_bits() -> None:
    cluster, layout = Cluster(gpu("a100-80gb"), 1, 1, NETWORK), ParallelLayout(1, checkpointing=Checkpointing.FULL)
    model = preset("llama2-7b")
    assert isinstance(model, Transformer)

    whole, adapted, packed = (
        native.states(replace(model, lora_rank=rank, lora_bits=bits), cluster, layout)
        for rank, bits in ((0, 32), (16, 32), (16, 4))
    )

    adapters = model.layers * 16 * (8 * 4096 + 3 * (4096 + 11008))
    assert adapted == whole / 4 + 16 * adapters
    matrices = model.layers * (4 * 4096**2 + 3 * 4096 * 11008)
    assert packed == adapted - (4 - 0.5625) * matrices


def test_adapters_spare_the_gradients_of_matrices() -> None:
    cluster = Cluster(gpu("h100-80gb"), 1, 8, NETWORK)
    model = preset("llama2-7b", sequence=512)
    times = [
        search.plan(replace(model, lora_rank=rank, lora_bits=bits), cluster, ParallelLayout(64, 8)).timing
        for rank, bits in ((0, 32), (16, 32), (16, 4))
    ]

    assert 0.6 < times[1].compute / times[0].compute < 0.75
    assert times[2].compute > times[1].compute  # matrices are unpacked
    assert times[1].optimizer < times[0].optimizer / 50

    with pytest.raises(UserError, match="matrices in 4 bits are not split: give tensor 1 and zero 0"):
        search.plan(replace(model, lora_rank=16, lora_bits=4), cluster, ParallelLayout(64, 8, zero=3))
