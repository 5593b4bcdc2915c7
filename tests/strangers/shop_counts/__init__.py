"""Counts per shop and day, as a package of somebody else brings them: what a shop will sell is a Poisson rate."""

from nightshift.kinds import TaskKind

TASK = TaskKind(
    "shop-counts",
    ("shop_counts", "nightshift.tasks.tabular"),  # whose rules of ingestion, scoring and examples suit any rows
    "shop_counts.config:ShopCounts",
    "shop_counts.package:ShopRates",
)
