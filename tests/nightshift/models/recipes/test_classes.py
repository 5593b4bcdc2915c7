"""The loss of networks that tell classes apart."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from nightshift.models.neural.images import mix
from nightshift.models.recipes import bert, mlp, resnet
from nightshift.models.recipes.mlp import MLP
from nightshift.runtime.errors import UserError
from nightshift.tasks.classification.linear import Line

LABELS = torch.tensor([0, 2, 1, 2, 2, 0])
LOGITS = torch.tensor([[2.0, -1, 0.5], [0, 0, 9], [1, 1, 1], [3, -3, 0], [-90, 0, 90], [0.3, 0.2, 0.1]])
IMAGES = {"side": 8, "channels": 1, "classes": 3}
TEXTS = {"vocabulary": 5, "pad": 0, "length": 4, "classes": 3}


def recipe(counts=(), **fields):
    return replace(resnet.build("parameters", IMAGES, {"width": 2, **fields}), counts=counts)


def expected(weights, gamma, labels=LABELS):
    """Equation 5 of the paper, row by row."""
    total = 0.0
    for logits, label in zip(LOGITS.double(), labels, strict=True):
        probability = logits.softmax(0)[label].item()
        total += -weights[label] * (1 - probability) ** gamma * logits.log_softmax(0)[label].item()
    return total / len(labels)


@pytest.mark.parametrize("gamma", [0, 0.5, 2])
@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 5.5, 0.25)])
def test_rows_count_by_the_weight_of_their_class_and_less_where_it_is_likely_already(gamma, weights):
    of_images = recipe(class_weights=",".join(map(str, weights)), focal_gamma=gamma)
    fields = {"class_weights": of_images.fit.class_weights, "focal_gamma": gamma}
    of_texts = bert.build("parameters", TEXTS, {"width": 8, "heads": 1, "layers": 1, **fields})

    for kind in (of_images, of_texts):
        assert kind.loss(LOGITS, LABELS).item() == pytest.approx(expected(weights, gamma), rel=1e-4)


def test_a_focal_loss_of_likely_rows_has_a_finite_slope():
    logits = LOGITS.clone().requires_grad_()
    recipe(focal_gamma=0.5, label_smoothing=0.1).loss(logits, LABELS).backward()

    assert logits.grad.isfinite().all()
    assert logits.grad.abs().sum() > 0


@pytest.mark.parametrize("gamma", [0, 2])
def test_shares_of_classes_weigh_like_the_classes_they_are_of(gamma):
    shares = nn.functional.one_hot(LABELS, 3).float()
    weighted = recipe(class_weights="1,2,3", focal_gamma=gamma, label_smoothing=0.1)

    assert weighted.loss(LOGITS, shares).item() == pytest.approx(weighted.loss(LOGITS, LABELS).item(), rel=1e-6)


def test_balanced_classes_weigh_alike_in_all_rows_together_and_pieces_of_a_batch_add_up():
    balanced = recipe(counts=[2, 1, 3], class_weights="balanced")
    pieces = [balanced.loss(LOGITS[part], LABELS[part]).item() * 3 / 6 for part in (slice(3), slice(3, 6))]

    whole = balanced.loss(LOGITS, LABELS).item()
    assert whole == pytest.approx(expected([6 / 6, 6 / 3, 6 / 9], 0), rel=1e-4)
    assert sum(pieces) == pytest.approx(whole, rel=1e-6)


SEVERAL = torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize("weights", ["", "1,5.5,0.25"])
@pytest.mark.parametrize("smoothing", [0, 0.2])
def test_rows_of_any_number_of_classes_have_the_binary_cross_entropy_of_pytorch(weights, smoothing):
    positive_weight = torch.tensor([float(weight) for weight in weights.split(",")]) if weights else None
    oracle = nn.BCEWithLogitsLoss(pos_weight=positive_weight)(LOGITS, SEVERAL * (1 - smoothing) + smoothing / 2)
    fields = {"class_weights": weights, "label_smoothing": smoothing}
    of_texts = bert.build("parameters", TEXTS, {"width": 8, "heads": 1, "layers": 1, **fields})

    for kind in (recipe(**fields), of_texts):
        loss = replace(kind, is_multilabel=True).loss(LOGITS, SEVERAL)
        assert loss.item() == pytest.approx(oracle.item(), rel=1e-6)


def test_a_focal_loss_of_any_number_of_classes_is_that_of_each_class():
    logits = LOGITS.clone().requires_grad_()
    loss = replace(recipe(focal_gamma=2, class_weights="1,2,3"), is_multilabel=True).loss(logits, SEVERAL)
    loss.backward()

    sure = torch.where(SEVERAL == 1, LOGITS.double().sigmoid(), LOGITS.double().neg().sigmoid())
    weights = torch.where(SEVERAL == 1, torch.tensor([1.0, 2, 3]), 1)
    assert loss.item() == pytest.approx((weights * (1 - sure) ** 2 * -sure.log()).mean().item(), rel=1e-4)
    assert logits.grad.isfinite().all()


def test_mixed_images_have_the_labels_of_both():
    images, shares = torch.zeros((2, 8, 8, 1), dtype=torch.uint8), torch.tensor([0.75, 1])
    _, labels = mix((images, SEVERAL[:2]), shares, 3)
    assert labels.tolist() == [[0.75, 0, 0.75], [0, 0, 0]]


def test_each_class_has_a_logistic_regression_of_its_own_and_what_all_rows_have_is_constant():
    inputs, flags = LOGITS.numpy(), np.column_stack([SEVERAL[:, 0] == 1, np.ones(6, bool), np.zeros(6, bool)])
    line = Line.of_each_class(inputs, flags, partial(LogisticRegression().fit, inputs))
    oracle = LogisticRegression().fit(inputs, flags[:, 0]).decision_function(inputs)
    assert (inputs @ line.weights + line.bias)[:, 0] == pytest.approx(oracle)
    assert (line.weights[:, 1:] == 0).all()
    assert line.bias[1:].tolist() == [30, -30]


def test_weights_of_another_number_of_classes_are_refused():
    with pytest.raises(UserError, match=r"parameters\.class_weights: has 2 numbers, and task\.classes has 3; write"):
        recipe(class_weights="1,2")
    with pytest.raises(UserError, match="class_weights: String should match"):
        recipe(class_weights="rare")


@pytest.mark.parametrize("gamma", [0, 2])
def test_a_positive_row_of_a_table_counts_as_often_as_its_weight_says(gamma):
    weighted = MLP(1, mlp.parameters("", {"positive_weight": 3, "focal_gamma": gamma}))
    logits, labels = torch.tensor([[-1.0], [0.5], [4], [-2]]), torch.tensor([0.0, 1, 1, 0])
    sure = torch.where(labels == 1, logits[:, 0].sigmoid(), 1 - logits[:, 0].sigmoid())

    rows = torch.tensor([1.0, 3, 3, 1]) * (1 - sure) ** gamma * -sure.log()
    assert weighted.loss(logits, labels).item() == pytest.approx(rows.mean().item(), rel=1e-5)
