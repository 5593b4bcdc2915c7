"""The losses of pairs, beside those of `transformers` and beside sums written out."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.clip.modeling_clip import image_text_contrastive_loss

from nightshift_image_text.recipes import contrastive

NAN = math.nan


def similarities(count=6):
    return 5 * torch.randn(count, count, generator=torch.Generator().manual_seed(0))


def same(*numbers):
    return contrastive.compare_numbers(torch.tensor(numbers))


def alike(count):
    return torch.ones(count, count)


def test_without_shared_studies_the_softmax_is_that_of_transformers():
    similar = similarities()

    loss = contrastive.measure_softmax(similar, same(*range(6)), alike(6))

    torch.testing.assert_close(loss, image_text_contrastive_loss(similar.T))


def test_without_shared_studies_the_sigmoid_is_that_of_transformers():
    similar = similarities()
    # as `SiglipModel.forward` has it
    signs = 2 * torch.eye(6) - 1
    expected = -torch.nn.functional.logsigmoid(signs * similar).sum(dim=-1).mean()

    torch.testing.assert_close(contrastive.measure_sigmoid(similar, same(*range(6)), alike(6)), expected)


@settings(max_examples=30)
@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, NAN]), min_size=1, max_size=6), st.sampled_from([0.0, 1.0, 3.0]))
def test_pairs_of_a_study_are_positives_and_those_of_a_group_weigh_as_negatives(studies, weight):
    count, similar = len(studies), similarities(len(studies))
    groups = [0.0 if number in (0.0, 1.0) else number for number in studies]
    is_positive, is_group = same(*studies), same(*groups)
    weights = contrastive.weigh_pairs(is_positive, is_group, weight)

    def belongs(numbers, i, j):
        return i == j or numbers[i] == numbers[j]

    def nats(logits, i):
        terms = [
            math.exp(value) * (weight if belongs(groups, i, j) and not belongs(studies, i, j) else 1)
            for j, value in enumerate(logits)
        ]
        own = [j for j in range(count) if belongs(studies, i, j)]
        return sum(math.log(sum(terms) / terms[j]) for j in own) / len(own)

    expected = sum(nats(rows[i], i) for rows in (similar.tolist(), similar.T.tolist()) for i in range(count))
    loss = contrastive.measure_softmax(similar, is_positive, weights)
    assert loss.item() == pytest.approx(expected / (2 * count), rel=1e-4, abs=1e-5)


def test_left_out_negatives_leave_no_gradient():
    similar = similarities(3).requires_grad_()
    is_positive, is_group = same(0.0, 1.0, 2.0), same(7.0, 7.0, 8.0)
    weights = contrastive.weigh_pairs(is_positive, is_group, 0)

    for measure in (contrastive.measure_softmax, contrastive.measure_sigmoid):
        (gradient,) = torch.autograd.grad(measure(similar, is_positive, weights), similar)
        assert gradient.isfinite().all()
        assert gradient[0, 1] == gradient[1, 0] == 0
        assert gradient[0, 2] > 0


def test_unknown_findings_leave_no_loss_and_no_gradient():
    logits = torch.tensor([[1.0, 2.0], [3.0, -1.0]], requires_grad=True)
    known = torch.tensor([[1.0, NAN], [NAN, 0.0]])

    loss = contrastive.measure_findings(logits, known)
    loss.backward()

    assert loss.item() == pytest.approx((math.log1p(math.exp(-1)) * 2) / 2)
    assert logits.grad[0, 1] == logits.grad[1, 0] == 0
    assert contrastive.measure_findings(logits, torch.full((2, 2), NAN)).item() == 0
