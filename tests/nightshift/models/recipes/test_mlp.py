"""The recipe of the multilayer perceptron."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from nightshift.models.recipes import mlp
from nightshift.models.recipes.mlp import MLP, MLPParameters
from nightshift.runtime.errors import UserError


def test_a_network_has_the_layers_the_parameters_ask_for():
    model = MLP(5, MLPParameters(hidden=7, layers=2)).model()

    assert [(weights.shape, bias.shape) for weights, bias in mlp.layers(model)] == [
        ((7, 5), (7,)),
        ((7, 7), (7,)),
        ((1, 7), (1,)),
    ]
    assert len(model) == 3  # a block a linear layer
    assert model(torch.ones(4, 5)).shape == (4, 1)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_floating_point_operations_are_those_that_pytorch_counts(layers):
    recipe = MLP(5, MLPParameters(hidden=7, layers=layers))
    model = recipe.model()

    with FlopCounterMode(display=False) as counter:
        recipe.loss(model(torch.ones(10, 5)), torch.ones(10)).backward()

    assert counter.get_total_flops() == 10 * recipe.flops()


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_every_layer_has_a_place_in_the_plan_for_sharing_it(layers):
    recipe = MLP(5, MLPParameters(hidden=7, layers=layers))
    model = recipe.model()

    plan = recipe.tensor_plan(model, 2)

    assert set(plan) == {name for name, module in model.named_modules() if isinstance(module, nn.Linear)}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epoch": 3}, r"field\.epoch: unknown; allowed here: batch_size, .*; did you mean 'epochs'\?"),
        ({"hidden": 0}, r"field\.hidden: .* greater than or equal to 1, got 0"),
        ({"hidden": "many"}, r"field\.hidden: .*, got 'many'"),
        ({"learning_rate": 0.0}, r"field\.learning_rate: .* greater than 0, got 0"),
        ({"precision": "fp8"}, r"field\.precision: .*'float32', 'bf16' or 'fp16', got 'fp8'"),
    ],
)
def test_a_parameter_that_is_unknown_or_wrong_is_named(fields, message):
    with pytest.raises(UserError, match=message):
        mlp.parameters("field", fields)


def test_parameters_not_given_have_defaults():
    assert mlp.parameters("field", {"epochs": 2}) == MLPParameters(epochs=2)
