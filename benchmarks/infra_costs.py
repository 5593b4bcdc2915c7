"""What the shipped environments cost a month, from their plans: python -m benchmarks.infra_costs"""

from benchmarks import figures
from infra.cloud import plans
from infra.costs.__main__ import estimate

CLOUDS, SIZES = ("aws", "gcp"), ("try", "dev", "prod")


def main() -> None:
    """Plan each environment, and print a table."""
    rows = [
        {"environment": f"{cloud}, {size}", **estimate(plans.plan(cloud, size), cloud)}
        for cloud in CLOUDS
        for size in SIZES
    ]
    figures.publish("infra-costs", rows)


if __name__ == "__main__":
    main()
