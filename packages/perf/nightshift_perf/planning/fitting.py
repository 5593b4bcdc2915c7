"""The fit of `efficiency.yaml` to published trainings, and what it predicts of a source that it has not seen.

`python -m nightshift_perf.planning.fitting` writes the table: the shares by a fit to all sources, and by one without
each of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import log

import numpy as np
import yaml
from numpy.typing import NDArray
from scipy.optimize import least_squares

from nightshift.runtime import strict_yaml
from nightshift_perf.planning.efficiency import ALL, TABLE, build_rows
from nightshift_perf.planning.published import PublishedFigure, points

# where a search begins, and how large a share can be
START = {
    "half": (300, 3000),
    "data_exposed": (0.5, 1),
    "tensor_exposed": (0.5, 1),
    "straggle": (0.005, 0.1),
    "ampere bf16": (0.65, 1),
    "hopper bf16": (0.65, 1),
    "hopper fp8": (0.65, 1),
    "blackwell fp8": (0.65, 1),
    "ampere attention": (0.3, 1),
    "hopper attention": (0.3, 1),
    "hopper megatron attention": (0.3, 1),
    "blackwell attention": (0.3, 1),
}
PRIOR = 0.2  # weight of where a search begins, for shares that the points say little about
OUTLIER = 0.1  # relative error from which on a point pulls less than its square
HEADER = """\
# Written by `python -m nightshift_perf.planning.fitting` from published.csv; all points, and all but those of a source.
# What is given: traffic and links are what STREAM-like kernels and nccl-tests (235 of 300 GB/s on A100) reach,
# convolutions is of one point, ResNet-50 on an A100, and launch is what PyTorch takes for a kernel on a server's CPU.
"""


def fit_shares(figures: Sequence[PublishedFigure], fixed: Mapping[str, float]) -> dict[str, float]:
    """Return the shares that figures are met best with: least squares of log errors, outliers damped.

    What the figures say little about stays near where the search begins.

    A source weighs as the root of the number of its points, so that one with hundreds does not decide alone.
    """
    start, most = (np.log([bounds[number] for bounds in START.values()]) for number in (0, 1))
    sources = [figure.source for figure in figures]
    weights = np.array([sources.count(source) ** -0.25 for source in sources])

    def residuals(values: NDArray[np.float64]) -> NDArray[np.float64]:
        rows = build_rows(fixed, dict(zip(START, np.exp(values), strict=True)))
        errors = weights * [log(figure.predict(rows) / figure.value) for figure in figures]
        return np.concatenate([errors, PRIOR * (values - start)])

    options = {"loss": "soft_l1", "f_scale": OUTLIER, "ftol": 1e-3, "xtol": 1e-3}
    fitted = least_squares(residuals, start, bounds=(-np.inf, most), **options)
    return {name: round(float(value), 4) for name, value in zip(START, np.exp(fitted.x), strict=True)}


def fit_all(fixed: Mapping[str, float]) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the fit to all sources, and each without one of them."""
    figures = [figure for figure in points() if figure.is_fitted]
    yield ALL, fit_shares(figures, fixed)
    for source in dict.fromkeys(figure.source for figure in figures):
        yield source, fit_shares([figure for figure in figures if figure.source != source], fixed)


def write_table() -> None:
    """Write the table anew; what is given stays."""
    fixed = strict_yaml.load_document(TABLE.read_text())["given"]
    table = {"given": fixed, "fitted": dict(fit_all(fixed))}
    TABLE.write_text(HEADER + yaml.safe_dump(table, sort_keys=False, width=120, default_flow_style=None))


if __name__ == "__main__":
    write_table()
