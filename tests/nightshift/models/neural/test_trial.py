"""A network trained stretch by stretch."""

import json

import pytest
import torch

from nightshift.config.neural import Precision
from nightshift.models import recipes
from nightshift.models.neural import devices, simulated
from nightshift.models.neural.trial import StretchTimer, answer_commands

CPU = torch.device("cpu")
SMALL = {"threads": 1, "batch_size": 30}
NETWORKS = {
    "mlp": ({"inputs": 3}, {"hidden": 8}),
    "resnet": ({"side": 8, "channels": 3, "classes": 2}, {"stages": "1", "width": 8}),
    "bert": ({"vocabulary": 30, "pad": 0, "length": 5, "classes": 2}, {"width": 8, "heads": 2, "layers": 1}),
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_stretch_trains_whole_batches_for_about_the_same_time_on_end(kind: str) -> None:
    shape, parameters = NETWORKS[kind]
    request = {"kind": kind, "shape": shape, "parameters": SMALL | parameters, "rows": 100, "trainer": {}}

    with simulated.training(request, CPU) as training:
        timer = StretchTimer(training)
        stretches = [timer.stretch() for _ in range(3)]

    assert {stretch["rows"] for stretch in stretches} == {30 * timer.steps}
    assert all(stretch["seconds"] > 0 and stretch["cpu_seconds"] > 0 for stretch in stretches)


@pytest.mark.parametrize(
    ("kind", "precision", "multiplies"),
    [
        ("resnet", Precision.FLOAT32, "tf32"),
        ("bert", Precision.FLOAT32, "fp32"),
        ("mlp", Precision.FLOAT32, "fp32"),
        ("resnet", Precision.BF16, "bf16"),
        ("mlp", Precision.FP16, "fp16"),
    ],
)
def test_a_network_multiplies_in_its_precision_and_convolves_float32_in_tf32(
    kind: str, precision: Precision, multiplies: str
) -> None:
    shape, parameters = NETWORKS[kind]
    model = recipes.build(kind, "parameters", shape, SMALL | parameters).model()

    assert devices.arithmetic(model, precision) == multiplies
    with devices.exact():
        assert devices.arithmetic(model, Precision.FLOAT32) == "fp32"


def test_a_variant_that_cannot_be_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    request = {"device": "cpu", "rows": 20, "kind": "mlp", "shape": {"inputs": 3}}
    request |= {"parameters": {"batch_size": 30}, "trainer": {}}

    with pytest.raises(SystemExit, match="2"):
        simulated.answer(json.dumps(request), answer_commands)

    refused = "batch_size is 30, and there are 20 rows; give more with --rows"
    assert json.loads(capsys.readouterr().out)["refused"] == refused
