"""Readings of sensors, which nobody labels: how unusual one is, is its negative log density under a Gaussian.

Its config has no column of labels, and that is all it takes. What rows with one loss each have in common comes from
`shop_counts`.
"""

from nightshift.kinds import TaskKind

TASK = TaskKind(
    "reading-density",
    ("reading_density", "shop_counts", "nightshift.tasks.tabular"),
    "reading_density.config:ReadingConfig",
    "reading_density.package:Readings",
)
