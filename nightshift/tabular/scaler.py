"""Standardization: every input to mean 0 and standard deviation 1 of the training rows."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Scaler:
    """What standardises a matrix; the same float32 operations as in the exported graph.

    Attributes:
        mean: float32, shape (inputs,).
        scale: standard deviations, infinity for an input without a spread, which counts nothing whatever it becomes;
            float32, shape (inputs,).
        imputes: whether a number that is missing, NaN, counts as the mean.
    """

    mean: Matrix
    scale: Matrix
    imputes: bool = False

    @classmethod
    def fit(cls, matrix: Matrix, imputes: bool = False) -> Self:
        """Fit on training rows, in float64.

        Args:
            matrix: float32 of shape (rows, inputs).
            imputes: whether numbers may be missing, NaN in the matrix; they count as the mean of the others.
        """
        numbers = np.ma.masked_invalid(matrix) if imputes else matrix
        scale = np.ma.filled(numbers.std(axis=0, dtype=np.float64), 0).astype(np.float32)
        # as float32, in which the spread of tiny values is 0 too; weights of such inputs stay as they were drawn
        scale[scale == 0] = np.inf
        mean = np.ma.filled(numbers.mean(axis=0, dtype=np.float64), 0)
        return cls(mean.astype(np.float32), scale, imputes)

    def apply(self, matrix: Matrix) -> Matrix:
        """Return the standardized matrix, float32 of shape (rows, inputs)."""
        standardized = (matrix - self.mean) / self.scale
        if self.imputes:
            standardized[np.isnan(standardized)] = 0  # which is the mean
        return standardized
