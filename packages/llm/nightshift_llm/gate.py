"""Is a quantized model as good as its original? The gate, and what it says of one that is not.

Both are measured on the same documents and items, so their difference is paired and its interval that of a bootstrap
over documents (Efron & Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13). Speeds are measured in turn, so
that a slow moment of the machine slows both.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGUFReader
from pydantic import Field

from nightshift import storage
from nightshift.config.section import ConfigSection, Factor, Share
from nightshift.contracts.verdict import FILE as VERDICT
from nightshift.contracts.verdict import Decision, Measure, Verdict
from nightshift.runtime.errors import UserError
from nightshift.stats.bootstrap import draw_rows
from nightshift.stats.comparison import BootstrapEstimate
from nightshift_llm import llamacpp
from nightshift_llm.contracts.likelihoods import FILE, Likelihoods
from nightshift_llm.likelihood import resume_likelihoods
from nightshift_llm.llamacpp import ContextOptions, LoadedModel
from nightshift_llm.quantization import dequantize

Floats = npt.NDArray[np.floating[Any]]

BITS = "bits_per_byte"
SPEEDUP = "speedup"
LAYER = re.compile(r"blk\.(\d+)\.")
SPEED_PAIRS = 12  # at least
SPEED_SECONDS = 1.0  # minimum duration: measurements of milliseconds are noisy
SPEED_TOKENS = 32
MIN_PAIRS = 10  # documents or items; fewer have next to no statistical power


class QuantizationLimits(ConfigSection):
    """The limits of a quantized model's losses."""

    bits: Share = Field(0.02, description="of the original's bits per byte that may be added")
    task_loss: Share = Field(0.02, description="of a task's mean loss that may be added")
    speedup: Factor | None = Field(
        1, description="tokens a second over those of the original, at least; null: measured only"
    )


@dataclass(frozen=True)
class PairedLosses:
    """Losses of both models on the same documents or items.

    Attributes:
        original: float64 of shape (n,).
        quantized: the same of the quantized model.
        weights: divisors of the losses, float64 of shape (n,): bytes of documents, or 1 per item.
    """

    original: Floats
    quantized: Floats
    weights: Floats

    @property
    def means(self) -> tuple[float, float]:
        """The original's mean loss and the quantized one's."""
        total = self.weights.sum()
        return float(self.original.sum() / total), float(self.quantized.sum() / total)

    def increase(self) -> BootstrapEstimate:
        """Return by how much the mean loss is higher."""
        before, after = self.means
        rows = draw_rows(len(self.weights))
        resampled = (self.quantized - self.original)[rows].sum(axis=1) / self.weights[rows].sum(axis=1)
        return BootstrapEstimate.from_value(after - before, resampled)


@dataclass(frozen=True)
class PairedSpeeds:
    """The tokens per second of both models, measured alternately.

    Attributes:
        original: float64 of shape (n,).
        quantized: the same of the quantized model.
    """

    original: Floats
    quantized: Floats

    @property
    def medians(self) -> tuple[float, float]:
        """The original's median and the quantized one's."""
        return float(np.median(self.original)), float(np.median(self.quantized))

    def speedup(self) -> BootstrapEstimate:
        """Return how many times as fast the quantized model is, a median of pairs."""
        ratios = self.quantized / self.original
        resampled = np.median(ratios[draw_rows(len(ratios))], axis=1)
        return BootstrapEstimate.from_value(float(np.median(ratios)), resampled)


@dataclass(frozen=True)
class Evidence:
    """The measurements of both models.

    Attributes:
        documents: bits of the documents, weighted by bytes.
        speeds: speeds of generating text.
        tasks: losses of the items by task.
    """

    documents: PairedLosses
    speeds: PairedSpeeds
    tasks: Mapping[str, PairedLosses] = field(default_factory=dict)


def compare_models(
    original: Path, quantized: Path, documents: Sequence[str], folder: str, options: ContextOptions
) -> Verdict:
    """Measure and judge a quantized model, and write the verdict into a folder.

    The arguments and errors are those of `measure_evidence`.
    """
    evidence = measure_evidence(original, quantized, documents, folder, options)
    verdict = judge(evidence, QuantizationLimits(), storage.digest(str(quantized)))
    if verdict.decision is Decision.FAIL:
        verdict = verdict.model_copy(update={"reasons": [*verdict.reasons, explain_damage(original, quantized)]})
    verdict.write(storage.join(folder, VERDICT))
    return verdict


def measure_evidence(
    original: Path, quantized: Path, documents: Sequence[str], folder: str, options: ContextOptions
) -> Evidence:
    """Measure both models on the same documents, and their speeds in turn.

    What a file was measured by stays in the folder, and is not measured again for the same file and documents.

    Args:
        original: GGUF file.
        quantized: GGUF file.
        documents: texts that the model was not trained on.
        folder: or URI.
        options: with at least 2 tokens.

    Raises:
        UserError: when there is no document, or a file is no model.
    """
    pair = [
        resume_likelihoods(storage.join(folder, f"{name}-{FILE}"), file, documents, options)
        for name, file in (("original", original), ("quantized", quantized))
    ]
    with llamacpp.load(original, options) as first, llamacpp.load(quantized, options) as second:
        speeds = measure_speeds(first, second, max(documents, key=len))
    return Evidence(pair_documents(*pair), speeds)


def pair_documents(original: Likelihoods, quantized: Likelihoods) -> PairedLosses:
    """Return the bits of both on the same documents.

    Raises:
        UserError: when these were not the same.
    """
    if (original.documents_sha256, original.context) != (quantized.documents_sha256, quantized.context):
        raise UserError("likelihoods: those of the two models are of other documents or contexts; measure both again")
    return PairedLosses(np.array(original.bits), np.array(quantized.bits), np.array(original.bytes, dtype=np.float64))


def measure_speeds(original: LoadedModel, quantized: LoadedModel, text: str, pairs: int = SPEED_PAIRS) -> PairedSpeeds:
    """Return the decoding speeds of both models on a text, measured alternately, for a minimum number of pairs."""
    tokens = original.tokenize(text)[: min(original.context, SPEED_TOKENS)]
    deadline = time.monotonic() + SPEED_SECONDS
    seconds: list[list[float]] = []
    while len(seconds) < pairs or time.monotonic() < deadline:
        seconds.append([model.decode_seconds(tokens) for model in (original, quantized)])
    return PairedSpeeds(*len(tokens) / np.array(seconds).T)


def judge(evidence: Evidence, limits: QuantizationLimits, subject: str) -> Verdict:
    """Return the verdict of the gate `quantization`.

    Args:
        evidence: measurements of both models.
        limits: limits of the losses.
        subject: hash of the quantized file.

    Returns:
        `fail` if a measure is significantly beyond its limit; `undecided` if its interval includes the limit, or there
        are too few documents or items.
    """
    before, _ = evidence.documents.means
    judged = [_judge_loss(BITS, evidence.documents, limits.bits * before)]
    judged += [_judge_loss(name, losses, limits.task_loss) for name, losses in sorted(evidence.tasks.items())]
    judged.append(_judge_speed(evidence.speeds.speedup(), limits.speedup))
    order = (Decision.FAIL, Decision.UNDECIDED, Decision.PASS)
    worst = next(decision for decision in order if decision in [decision for decision, _, _ in judged])
    return Verdict(
        gate="quantization",
        decision=worst,
        reasons=[reason for decision, reason, _ in judged if decision is worst],
        measures=[measure for _, _, measure in judged],
        subject=subject,
    )


def _judge_loss(name: str, losses: PairedLosses, limit: float) -> tuple[Decision, str, Measure]:
    (before, after), added = losses.means, losses.increase()
    label = name.replace("_", " ").capitalize()
    interval = f"{added.value:+z.4f} [{added.low:+z.4f}, {added.high:+z.4f}]"
    figures = f"{label} went from {before:.4f} to {after:.4f}, {interval}"
    measure = Measure(
        name=f"added_{name}",
        value=added.value,
        limit=limit,
        interval=(added.low, added.high),
        higher_is_better=False,
    )
    if (count := len(losses.weights)) < MIN_PAIRS:
        return Decision.UNDECIDED, f"{figures}: on {count}; at least {MIN_PAIRS} are needed to decide.", measure
    if added.low > limit:
        return Decision.FAIL, f"{figures}: above the limit of {limit:+.4f}, and not by chance.", measure
    if added.high > limit:
        return Decision.UNDECIDED, f"{figures}: perhaps above the limit of {limit:+.4f}; use more documents.", measure
    return Decision.PASS, f"{figures}: within the limit of {limit:+.4f}.", measure


def _judge_speed(speed: BootstrapEstimate, limit: float | None) -> tuple[Decision, str, Measure]:
    figures = f"It generates {speed.value:.2f} [{speed.low:.2f}, {speed.high:.2f}] times as fast as the original"
    measure = Measure(name=SPEEDUP, value=speed.value, limit=limit, interval=(speed.low, speed.high))
    if limit is None:
        return Decision.PASS, f"{figures}.", measure
    if speed.high < limit:
        return Decision.FAIL, f"{figures}: less than the limit of {limit:g}, and not by chance.", measure
    if speed.low < limit:
        return Decision.UNDECIDED, f"{figures}: perhaps less than {limit:g}; measure on a quieter machine.", measure
    return Decision.PASS, f"{figures}.", measure


def explain_damage(original: Path, quantized: Path) -> str:
    """Return a sentence about the layer whose weights differ most from the original's."""
    errors = layer_errors(original, quantized)
    worst = max(errors, key=errors.__getitem__)
    return (
        f"The weights of layer {worst} differ most from the original, by {errors[worst]:.1%} of their size; "
        f"those of the median layer by {median(errors.values()):.1%}."
    )


def layer_errors(original: Path, quantized: Path) -> dict[int, float]:
    """Return by layer the norm of the differences between its matrices over the norm of the original's."""
    others = {tensor.name: tensor for tensor in GGUFReader(quantized).tensors}
    squares: dict[int, Floats] = {}
    for tensor in GGUFReader(original).tensors:
        if (match := LAYER.match(tensor.name)) and len(tensor.shape) > 1:
            weights, layer = dequantize(tensor), int(match[1])
            differences = dequantize(others[tensor.name]) - weights
            norms = [np.square(values, dtype=np.float64).sum() for values in (differences, weights)]
            squares[layer] = squares.get(layer, np.zeros(2)) + norms
    return {layer: float(np.sqrt(difference / size)) for layer, (difference, size) in squares.items()}
