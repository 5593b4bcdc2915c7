"""How step time grows with the number of GPUs: Amdahl's law, and communication as latency and bandwidth of a ring."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nightshift.contracts.profile import Scaling, ScalingPoint


@dataclass(frozen=True)
class StepMeasurement:
    """A measured step with one number of GPUs, the same work on each; milliseconds.

    Attributes:
        world_size: number of GPUs.
        step: from one step to the next.
        compute: with kernels that compute.
        communication: with communication and no computation.
    """

    world_size: int
    step: float
    compute: float
    communication: float

    @property
    def residual(self) -> float:
        """Neither: the host, its data, copies."""
        return max(self.step - self.compute - self.communication, 0.0)


def fit(points: Sequence[StepMeasurement]) -> Scaling:
    """Fit how step time grows with the number n of GPUs.

    A step is computation and a residual (host, data), which do not depend on n when each GPU has the same work, and
    communication `alpha 2 (n - 1) + ring 2 (n - 1) / n`: latency of the hops of a ring all-reduce, and its bytes over
    the bandwidth (Thakur et al. 2005). Both are at least 0. The residual is fitted apart from them, so that a slow
    host is not taken for a slow network.

    Args:
        points: of at least two numbers of GPUs.
    """
    from scipy.optimize import nnls

    ordered = sorted(points, key=lambda point: point.world_size)
    hops = np.array([_hops(point.world_size) for point in ordered])
    (alpha, ring), _ = nnls(hops, np.array([point.communication for point in ordered]))
    compute, residual = (
        float(np.mean([getattr(point, name) for point in ordered])) for name in ("compute", "residual")
    )
    serial = serial_share([(point.world_size, point.step) for point in ordered])
    return Scaling(
        points=[
            ScalingPoint(
                world_size=point.world_size,
                step_ms=round(point.step, 4),
                compute_ms=round(point.compute, 4),
                communication_ms=round(point.communication, 4),
                residual_ms=round(point.residual, 4),
                fitted_ms=round(float(compute + residual + hop @ (alpha, ring)), 4),
                efficiency=round(ordered[0].step / point.step, 4),
            )
            for point, hop in zip(ordered, hops, strict=True)
        ],
        alpha_ms=round(float(alpha), 6),
        ring_ms=round(float(ring), 6),
        compute_ms=round(compute, 4),
        residual_ms=round(residual, 4),
        serial_share=round(serial, 6),
        largest_speedup=round(1 / serial, 3) if serial > 1e-6 else None,
    )


def serial_share(steps: Sequence[tuple[int, float]]) -> float:
    """Return Amdahl's serial share, the mean of the Karp-Flatt metric of each size above the smallest, 0 to 1.

    With n times the GPUs of the smallest size and the same work on each, n times the work takes `step`, so the speedup
    is `n first / step`; Karp and Flatt (1990): `(1 / speedup - 1 / n) / (1 - 1 / n)`.

    Args:
        steps: number of GPUs and step time each, the smallest number first.
    """
    (smallest, first), *rest = steps
    shares = []
    for size, step in rest:
        times = size / smallest
        shares.append((step / (times * first) - 1 / times) / (1 - 1 / times))
    return float(np.clip(np.mean(shares), 0.0, 1.0))


def _hops(size: int) -> tuple[float, float]:
    return 2.0 * (size - 1), 2.0 * (size - 1) / size
