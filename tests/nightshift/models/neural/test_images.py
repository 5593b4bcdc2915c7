"""Images of a training: their order, and what is done to them."""

import numpy as np
import pytest
import torch
from scipy import stats

from nightshift.models.neural.data import AugmentedDataset, BatchShare, Transform, gather_resident
from nightshift.models.neural.images import Augmentation, augment, beta, mix
from nightshift.models.recipes.resnet import ResNet, ResNetParameters

IMAGES = torch.arange(10 * 4 * 4).reshape(10, 4, 4, 1).to(torch.uint8)
LABELS = torch.arange(10)
HOW = Augmentation(shift=1, flip=True)


def pictures(how: Augmentation = HOW, size: int = 3) -> AugmentedDataset:
    torch.manual_seed(0)
    change = Transform(lambda samples, noise: (augment(how, samples[0], noise), samples[1]))
    dataset = AugmentedDataset(gather_resident(IMAGES), LABELS, size, change)
    dataset.seed()
    return dataset


def epochs(dataset: AugmentedDataset, count: int) -> list[BatchShare]:
    return [batch for _ in range(count) for batch in dataset.epoch()]


def same(ours, theirs) -> bool:
    return len(ours) == len(theirs) and all(
        torch.equal(a, b)
        for first, second in zip(ours, theirs, strict=True)
        for a, b in zip(first[:2], second[:2], strict=True)
    )


def test_an_epoch_has_every_image_once_with_its_label():
    batches = epochs(pictures(Augmentation()), 1)
    labels = torch.cat([labels for _, labels, _ in batches])
    assert [len(labels) for _, labels, _ in batches] == [3, 3, 3, 1]
    assert sorted(labels.tolist()) == list(range(10))
    assert torch.equal(torch.cat([images for images, _, _ in batches]), IMAGES[labels])


def test_epochs_differ_and_a_seed_repeats_them():
    first = epochs(pictures(), 2)
    assert same(first, epochs(pictures(), 2))
    assert not same(first[:4], first[4:])


@pytest.mark.parametrize("done", [1, 3, 4, 6])
def test_a_training_resumes_inside_an_epoch_with_the_same_images(done):
    whole = epochs(pictures(), 2)
    before = pictures()
    for _ in range(done // 4):
        list(before.epoch())
    state = before.state().clone()

    after = pictures()
    after.load(state)
    resumed = list(after.epoch(skip=done % 4))
    assert same(resumed, whole[done : done // 4 * 4 + 4])


def test_the_state_is_that_of_the_epoch_until_its_last_batch_is_handed_over():
    dataset = pictures()
    before = dataset.state().clone()
    for number, _ in enumerate(dataset.epoch(), 1):
        assert torch.equal(dataset.state(), before) == (number < 4)


def test_an_image_is_moved_and_what_it_leaves_is_filled_from_its_edge():
    image = torch.arange(9, dtype=torch.uint8).reshape(1, 3, 3, 1)
    down_right = augment(Augmentation(shift=1), image, torch.tensor([[0.99, 0.99, 0.9]]))
    assert down_right[0, :, :, 0].tolist() == [[0, 0, 1], [0, 0, 1], [3, 3, 4]]
    up_left = augment(Augmentation(shift=1), image, torch.tensor([[0.0, 0.0, 0.9]]))
    assert up_left[0, :, :, 0].tolist() == [[4, 5, 5], [7, 8, 8], [7, 8, 8]]


def test_half_of_the_images_are_mirrored():
    image = torch.arange(3, dtype=torch.uint8).reshape(1, 1, 3, 1).expand(2, 1, 3, 1)
    mirrored = augment(Augmentation(flip=True), image, torch.tensor([[0.5, 0.5, 0.4], [0.5, 0.5, 0.6]]))
    assert mirrored[:, 0, :, 0].tolist() == [[2, 1, 0], [0, 1, 2]]


def test_images_are_mixed_in_pairs_and_their_labels_alike():
    images = torch.tensor([0, 201, 100], dtype=torch.uint8).reshape(3, 1, 1, 1)
    blended, labels = mix((images, torch.tensor([0, 0, 1])), torch.tensor([0.75, 1.0, 0.4]), classes=3)
    assert blended.flatten().tolist() == [50, 201, 100]
    assert blended.dtype == torch.uint8
    assert torch.allclose(labels, torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 1, 0]]))
    _, labels = mix((images[:2], torch.tensor([0, 2])), torch.tensor([0.75, 0.4]), classes=3)
    assert torch.allclose(labels, torch.tensor([[0.75, 0, 0.25], [0.6, 0, 0.4]]))


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_shares_are_drawn_from_a_beta_distribution(alpha):
    drawn = beta(torch.linspace(0, 0.999999, 20_001), alpha).numpy()
    expected = stats.beta(alpha, alpha).ppf(np.linspace(0, 1, 20_001))
    assert np.abs(drawn - expected)[100:-100].max() < 0.01
    assert drawn.min() >= 0
    assert drawn.max() <= 1


def test_a_network_learns_from_mixed_images():
    recipe = ResNet("parameters", 4, 1, 10, ResNetParameters(width=4, mixup=1.0, label_smoothing=0.1))
    images, labels = recipe.augment((IMAGES, LABELS), torch.rand(10, 4))
    loss = recipe.loss(recipe.model()(images), labels)
    loss.backward()
    assert labels.shape == (10, 10)
    assert torch.allclose(labels.sum(1), torch.ones(10))
    assert (labels > 0).sum(1).max() == 2
    assert loss.isfinite()
