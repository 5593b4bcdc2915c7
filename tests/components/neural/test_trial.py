"""A network trained stretch by stretch, and bandwidths of collectives."""

import json

import pytest
import torch

from components.common.config.neural import Trainer
from components.common.errors import UserError
from components.neural.collectives import Measured
from components.neural.recipes.mlp import MLP, Parameters
from components.neural.trial import ENDLESS, Trial, main


def trial(rows: int, **fit: object) -> Trial:
    recipe = MLP(3, Parameters.model_validate({"hidden": 8, "epochs": ENDLESS, **fit}))
    return Trial(recipe, Trainer(), (torch.randn(rows, 3), torch.ones(rows)))


def test_a_stretch_trains_whole_batches_for_about_the_same_time_on_end() -> None:
    found = trial(100, batch_size=30)

    stretches = [found.stretch() for _ in range(3)]

    assert found.steps > 1
    assert {each["rows"] for each in stretches} == {30 * found.steps}
    assert all(each["seconds"] > 0 and each["cpu_seconds"] > 0 for each in stretches)


def test_a_batch_that_is_larger_than_the_data_is_refused() -> None:
    with pytest.raises(UserError, match="batch_size is 30, and there are 20 rows; give more with --rows"):
        trial(20, batch_size=30)


def test_a_variant_that_cannot_be_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"device": "cpu", "rows": 20, "inputs": 3, "parameters": {"batch_size": 30}, "trainer": {}}

    with pytest.raises(SystemExit, match="2"):
        main(json.dumps(asked))

    assert json.loads(capsys.readouterr().out)["refused"].startswith("batch_size is 30, and there are 20 rows")


@pytest.mark.parametrize(
    ("name", "share"), [("all-reduce", 14 / 8), ("all-gather", 7 / 8), ("reduce-scatter", 7 / 8), ("all-to-all", 7 / 8)]
)
def test_bus_bandwidth_is_that_of_nccl_tests(name: str, share: float) -> None:
    found = Measured(name, size=1_000_000, seconds=0.001, processes=8)

    assert found.algorithm == pytest.approx(1e9)
    assert found.bus == pytest.approx(share * 1e9)
