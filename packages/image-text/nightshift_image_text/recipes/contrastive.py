"""The loss of pairs in a batch: images find their reports and reports their images; and the loss of findings."""

import torch
from torch import Tensor, nn

Same = Tensor  # whether the pair of a row and the pair of a column have the same number, bool (n, n)


def measure_softmax(similar: Tensor, is_positive: Same, weights: Tensor) -> Tensor:
    """Return the mean cross-entropy of images among reports and of reports among images.

    Radford et al., CLIP, 2021, figure 3. An image with several reports is to find all of them alike (Yang et al.,
    UniCL, 2022, equation 4); a negative's weight counts it so many times (Robinson et al., Contrastive Learning with
    Hard Negative Samples, 2021, equation 4).

    Args:
        similar: of image i and report j, float32 (n, n), over the temperature.
        is_positive: whether they belong together.
        weights: of each pair in the sums over reports and over images, (n, n); 1 where it is positive.
    """
    weighted = similar + weights.log()
    losses = [
        -(nn.functional.log_softmax(logits, 1).where(shares > 0, 0) * shares).sum(1)
        for logits, shares in ((weighted, is_positive), (weighted.T, is_positive.T))
        for shares in [shares / shares.sum(1, keepdim=True)]
    ]
    return torch.stack(losses).mean()


def measure_sigmoid(similar: Tensor, is_positive: Same, weights: Tensor) -> Tensor:
    """Return the binary cross-entropy of whether image and report belong together, summed over an image's reports.

    Zhai, Mustafa, Kolesnikov & Beyer, SigLIP, 2023, algorithm 1; for the arguments see `measure_softmax`.
    """
    signs = is_positive.to(similar.dtype) * 2 - 1
    return -(nn.functional.logsigmoid(signs * similar) * weights).sum() / len(similar)


def weigh_pairs(is_positive: Same, is_group: Same, group_negatives: float) -> Tensor:
    """Return weights of pairs: of negatives of the same group another one than 1."""
    return torch.where(is_group & ~is_positive, group_negatives, 1.0)


def compare_numbers(numbers: Tensor) -> Same:
    """Return which rows have the same number, (n,) -> (n, n); each row has its own, an unknown one (NaN) alone."""
    return (numbers[:, None] == numbers) | torch.eye(len(numbers), dtype=torch.bool, device=numbers.device)


def measure_findings(logits: Tensor, known: Tensor) -> Tensor:
    """Return the mean binary cross-entropy of the findings that are known, both (n, findings); without any, 0."""
    is_known = ~known.isnan()
    losses = nn.functional.binary_cross_entropy_with_logits(logits, known.where(is_known, 0), reduction="none")
    return (losses * is_known).sum() / is_known.sum().clamp(min=1)
