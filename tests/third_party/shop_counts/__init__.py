"""Counts per shop and day: what a shop will sell is a Poisson rate. What functions take, Nightshift's protocol says."""

from nightshift.kinds import TaskKind

TASK = TaskKind(
    "shop-counts",
    ("shop_counts", "nightshift.tasks.tabular"),  # whose ingestion, scoring and examples suit any rows
    "shop_counts.config:ShopConfig",
    "shop_counts.package:ShopRates",
)
