"""Contributions of inputs to a model's margin: Shapley values of trees, and those of dense layers by DeepLIFT.

NumPy alone, a row at a time: a server and a night do the same arithmetic with the same file.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from nightshift.models.weights import WeightFile

Array = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
Tensors = Mapping[str, Array]

SMALLEST = 1e-9  # change of a unit's input up to which its slope is taken instead


class Additive(ABC):
    """A margin that is a bias and a contribution of each input."""

    @property
    @abstractmethod
    def bias(self) -> float:
        """The margin where nothing is known of a row."""

    @property
    @abstractmethod
    def tensors(self) -> Tensors:
        """What a file keeps of it."""

    @abstractmethod
    def contribute(self, row: Array) -> Floats:
        """Return the contribution of each input of a row, (d,)."""


@dataclass(frozen=True)
class TreePaths(Additive):
    """The leaves of trees, each with the conditions of its path, those on one input merged.

    Arrays are float32 (conditions, leaves); a leaf with fewer conditions than another has some that always hold.

    Attributes:
        feature: position of the input.
        low: the least value that passes.
        high: the least value above it that does not.
        missing: 1 where a missing number passes.
        share: of the training rows that come to the condition, how many pass; above 0.
        value: what each leaf adds to the margin, (leaves,).
        base: added to their sum, (1,).
    """

    feature: Array
    low: Array
    high: Array
    missing: Array
    share: Array
    value: Array
    base: Array

    @property
    def tensors(self) -> Tensors:
        """The arrays, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def bias(self) -> float:
        """The mean of the margin over the training rows, by the shares of the paths."""
        return float(self.base[0] + self._share.prod(axis=0) @ self._value)

    def contribute(self, row: Array) -> Floats:
        """Return the Shapley value of each input.

        A leaf adds its value times a factor a condition: 1 or 0 where the input is known, else `share`; this is the
        path-dependent TreeSHAP of Lundberg et al., Consistent Individualized Feature Attribution for Tree Ensembles,
        2018. The Shapley value of such a product is the integral over t from 0 to 1 of its derivative by one
        condition, where each other factor is `share (1 - t) + holds t` (Owen, Multilinear Extensions of Games, 1972).
        That is a polynomial in t, which a Gauss-Legendre rule of as many points as half its conditions sums exactly.
        """
        values = row[self._position]
        holds = ((values >= self.low) & (values < self.high)) | (self._passes_missing & np.isnan(values))
        points, weights = self._rule
        factors = self._unknown + holds * points
        products = factors.prod(axis=1) * weights
        parts = (products[:, None] / factors).sum(axis=0) * (holds - self._share) * self._value
        return np.bincount(self._position.ravel(), parts.ravel(), minlength=len(row)).astype(np.float64, copy=False)

    @cached_property
    def _rule(self) -> tuple[Floats, Floats]:
        """Points and weights on [0, 1]: (points, 1, 1) and (points, 1)."""
        points, weights = np.polynomial.legendre.leggauss(max(1, -(-len(self.feature) // 2)))
        return (points.reshape(-1, 1, 1) + 1) / 2, weights.reshape(-1, 1) / 2

    @cached_property
    def _unknown(self) -> Floats:
        return self._share * (1 - self._rule[0])

    @cached_property
    def _share(self) -> Floats:
        return self.share.astype(np.float64)

    @cached_property
    def _value(self) -> Floats:
        return self.value.astype(np.float64)

    @cached_property
    def _position(self) -> npt.NDArray[np.intp]:
        return self.feature.astype(np.intp)

    @cached_property
    def _passes_missing(self) -> npt.NDArray[np.bool_]:
        return self.missing > 0


@dataclass(frozen=True)
class DenseLayers(Additive):
    """Linear layers with ReLU between them, over standardized inputs; one layer is a linear model.

    Attributes:
        mean: of each input, which a missing number counts as, float32 (d,).
        scale: standard deviation of each, float32 (d,).
        layers: weights (out, in) and biases (out,), float32; the last one has a single output.
    """

    mean: Array
    scale: Array
    layers: Sequence[tuple[Array, Array]]

    @property
    def tensors(self) -> Tensors:
        """The arrays, by name."""
        layers = [
            {f"weights{number}": weights, f"biases{number}": biases}
            for number, (weights, biases) in enumerate(self.layers)
        ]
        return {"mean": self.mean, "scale": self.scale} | {
            name: array for layer in layers for name, array in layer.items()
        }

    @classmethod
    def read(cls, tensors: Tensors) -> Self:
        """Return the layers that a file keeps."""
        count = sum(name.startswith("weights") for name in tensors)
        layers = [(tensors[f"weights{number}"], tensors[f"biases{number}"]) for number in range(count)]
        return cls(tensors["mean"], tensors["scale"], layers)

    @cached_property
    def bias(self) -> float:
        """The margin of a row of means."""
        return float(self._average[-1][0])

    def contribute(self, row: Array) -> Floats:
        """Return the contribution of each input against a row of means.

        That is coefficient times distance from the mean for a linear model, exactly its Shapley value where inputs
        are independent. For ReLU it is the rescale rule of DeepLIFT (Shrikumar et al., Learning Important Features
        Through Propagating Activation Differences, 2017), which approximates Shapley values and adds up all the same.
        """
        inputs = np.nan_to_num((row - self.mean) / self.scale).astype(np.float64)
        outputs = self._forward(inputs)
        multipliers = self._layers[-1][0][0]
        steps = zip(self._layers[-2::-1], outputs[-2::-1], self._average[-2::-1], strict=True)
        for (weights, _), output, average in steps:
            multipliers = multipliers * _slopes(output, average) @ weights
        contributions: Floats = inputs * multipliers
        return contributions

    def _forward(self, inputs: Floats) -> list[Floats]:
        """Return what each layer gives before its ReLU."""
        outputs = []
        for weights, biases in self._layers:
            outputs.append(weights @ inputs + biases)
            inputs = outputs[-1].clip(0)
        return outputs

    @cached_property
    def _average(self) -> list[Floats]:
        return self._forward(np.zeros(len(self.mean)))

    @cached_property
    def _layers(self) -> list[tuple[Floats, Floats]]:
        return [(weights.astype(np.float64), biases.astype(np.float64)) for weights, biases in self.layers]


def _slopes(output: Floats, average: Floats) -> Floats:
    """Return by how much a ReLU changes between two of its inputs, for each unit of theirs."""
    change = output - average
    is_small = np.abs(change) < SMALLEST
    return np.where(is_small, output > 0, (output.clip(0) - average.clip(0)) / np.where(is_small, 1, change))


@dataclass(frozen=True)
class Term:
    """One of the margins that a model's margin is a weighted sum of.

    Attributes:
        margin: of some columns of the matrix.
        columns: their positions; None: all, in their order.
        weight: in the sum.
        is_logit: whether the probability is its sigmoid.
    """

    margin: Additive
    columns: Sequence[int] | None = None
    weight: float = 1.0
    is_logit: bool = False


@dataclass(frozen=True)
class Contributions:
    """A model's margin, as a bias and a contribution of each input.

    Attributes:
        terms: whose weighted sum it is.
    """

    terms: Sequence[Term]

    @classmethod
    def read(cls, content: bytes) -> Self:
        """Return the contributions that a file of safetensors is of."""
        terms: dict[str, dict[str, Array]] = {}
        for name, tensor in WeightFile.read("", content).tensors.items():
            number, _, part = name.partition(".")
            terms.setdefault(number, {})[part] = tensor
        return cls([_read_term(tensors) for tensors in terms.values()])

    @property
    def content(self) -> bytes:
        """A file of safetensors."""
        tensors = {
            f"{number}.{name}": np.ascontiguousarray(tensor, np.float32)
            for number, term in enumerate(self.terms)
            for name, tensor in _term_tensors(term).items()
        }
        return WeightFile("", tensors).content

    @cached_property
    def bias(self) -> float:
        """The margin where nothing is known of a row."""
        return sum(term.weight * term.margin.bias for term in self.terms)

    def compute(self, matrix: Array) -> Floats:
        """Return the contribution of each input of each row, float64 (n, d); with the bias they are the margin.

        Args:
            matrix: as the graph takes it, float32 (n, d).
        """
        total = np.zeros(matrix.shape)
        for term in self.terms:
            columns = slice(None) if term.columns is None else list(term.columns)
            for row, values in enumerate(matrix):
                total[row, columns] += term.weight * term.margin.contribute(values[columns])
        return total


def _term_tensors(term: Term) -> Tensors:
    columns = {} if term.columns is None else {"columns": np.array(term.columns, np.float32)}
    return {**term.margin.tensors, **columns, "weight": np.array([term.weight], np.float32)}


def _read_term(tensors: dict[str, Array]) -> Term:
    weight, columns = float(tensors.pop("weight")[0]), tensors.pop("columns", None)
    margin = TreePaths(**tensors) if "feature" in tensors else DenseLayers.read(tensors)
    return Term(margin, None if columns is None else columns.astype(int).tolist(), weight)
