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
        scale: standard deviations, 1 for a constant input; float32, shape (inputs,).
    """

    mean: Matrix
    scale: Matrix

    @classmethod
    def fit(cls, matrix: Matrix) -> Self:
        """Fit on training rows, in float64; `matrix` is float32 of shape (rows, inputs)."""
        scale = matrix.std(axis=0, dtype=np.float64).astype(np.float32)
        # as float32, in which the spread of tiny values is 0 too
        scale[scale == 0] = 1
        return cls(matrix.mean(axis=0, dtype=np.float64).astype(np.float32), scale)

    def apply(self, matrix: Matrix) -> Matrix:
        """Return the standardized matrix, float32 of shape (rows, inputs)."""
        return (matrix - self.mean) / self.scale
