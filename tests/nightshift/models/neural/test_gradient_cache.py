"""A batch whose rows are compared with each other may be computed in pieces."""

import pytest
import torch

from nightshift.models.neural import devices
from nightshift.models.neural.replica import Replica
from nightshift.models.neural.trainer import NetworkTraining
from tests.nightshift.models.neural import plans


def step(pieces: int, *frozen: str) -> dict[str, torch.Tensor]:
    """Return loss and gradients of a first step."""
    with devices.reproducible(0, threads=1):
        recipe, rows = plans.pairs({"microbatches": pieces})
        training = NetworkTraining(Replica(recipe, plans.CPU), rows)
        for name in frozen:
            training.replica.model.get_submodule(name).requires_grad_(False)
        loss = training.replica.backward(next(training.batches()), lambda loss: loss)
        weights = training.replica.parameters().items()
        return {"loss": loss} | {name: weight.grad for name, weight in weights if weight.grad is not None}


@pytest.mark.parametrize("pieces", [2, 3, 8, 40])
@pytest.mark.parametrize("frozen", [(), ("0.right",)])
def test_pieces_have_the_loss_and_gradients_of_the_whole_batch(pieces, frozen):
    whole = step(1, *frozen)

    cut = step(pieces, *frozen)

    assert cut.keys() == whole.keys()
    assert len(whole) == (3 if frozen else 5)
    for name, value in whole.items():
        torch.testing.assert_close(cut[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pieces", [2, 3, 40])
def test_a_held_out_loss_is_that_of_the_whole_batch(pieces):
    losses = []
    for count in (1, pieces):
        with devices.reproducible(0, threads=1):
            recipe, rows = plans.pairs({"microbatches": count})
            rows.hold_out(0.2)
            replica = Replica(recipe, plans.CPU)
            losses.append(torch.stack([replica.measure(batch) for batch in rows.held_out_batches()]))

    torch.testing.assert_close(*losses)
