"""The size of Lustre that loaders need, from what was measured."""

from collections.abc import Iterator

from infra.cloud.answers import Cloud, EnvironmentAnswers, LustreNeed
from nightshift.runtime.errors import UserError

GIB_PER_TIB = 1024
MEGABYTE = 1_000_000
TIERS = (125, 250, 500, 1000)  # MB/s for each TiB, in both clouds
# a GiB's price by tier, as far as it is known: Google's is 0.145 USD at 125 and 0.60 at 1000 (infra/costs/prices.yaml)
PRICE_EXPONENT = 0.68
# FSx: https://docs.aws.amazon.com/fsx/latest/LustreGuide/managing-storage-capacity.html
FSX_SMALLEST, FSX_STEP = 1200, 2400
# Managed Lustre: https://docs.cloud.google.com/managed-lustre/docs/performance-tiers
# GiB of a tier, each divided by its MB/s for each TiB: step, size above which a step is larger
GOOGLE_STEP, GOOGLE_THRESHOLD = 9_000_000, 1_530_000_000
# the larger step and the largest size of a tier, in GiB
GOOGLE_LARGE = {
    125: (72_000, 12_240_000),
    250: (288_000, 40_032_000),
    500: (144_000, 20_016_000),
    1000: (72_000, 10_008_000),
}


def compute_rate(need: LustreNeed) -> float:
    """Return MB/s that loaders read: rows per second times bytes of a row."""
    return need.rows_per_second * need.bytes_per_row / MEGABYTE


def size(cloud: Cloud, need: LustreNeed) -> dict[str, int]:
    """Return capacity in GiB and throughput in MB/s for each TiB of the cheapest file system that suffices.

    A file system reads `capacity / 1024 * throughput` MB/s from its disks
    (https://docs.aws.amazon.com/fsx/latest/LustreGuide/ssd-storage.html,
    https://docs.cloud.google.com/managed-lustre/docs/performance). Each tier is taken with its smallest capacity that
    holds the data and is fast enough.

    Raises:
        UserError: when no tier has so much.
    """
    sizes = [(capacity, tier) for tier in TIERS if (capacity := _find_capacity(cloud, tier, need))]
    if not sizes:
        text = f"lustre: {need.gib} GiB at {compute_rate(need):,.0f} MB/s is more than Managed Lustre has"
        raise UserError(f"{text}; divide the data among several environments")
    capacity, tier = min(sizes, key=lambda sized: sized[0] * sized[1] ** PRICE_EXPONENT)
    return {"capacity_gib": capacity, "throughput": tier}


def set_variables(answers: EnvironmentAnswers) -> dict[str, object]:
    """Return the Terraform variables of the file system; none where the size's own stands."""
    if answers.lustre is None:
        return {}
    sized: dict[str, object] = {"lustre": size(answers.cloud, answers.lustre)}
    return sized if answers.cloud is Cloud.AWS else sized | {"filestore": None}


def _find_capacity(cloud: Cloud, tier: int, need: LustreNeed) -> int | None:
    """Return the smallest capacity of a tier, in GiB, that is large and fast enough; None where there is none."""
    least = max(need.gib, compute_rate(need) / tier * GIB_PER_TIB)
    return next((capacity for capacity in _list_capacities(cloud, tier, least) if capacity >= least), None)


def _list_capacities(cloud: Cloud, tier: int, least: float) -> Iterator[int]:
    """Yield capacities of a tier in GiB around `least`, ascending."""
    if cloud is Cloud.AWS:
        yield from (FSX_SMALLEST, FSX_STEP * max(1, -int(-least // FSX_STEP)))
        return
    step, threshold = GOOGLE_STEP // tier, GOOGLE_THRESHOLD // tier
    large_step, largest = GOOGLE_LARGE[tier]
    yield min(step * max(1, -int(-least // step)), threshold)
    yield min(large_step * -int(-least // large_step), largest)
