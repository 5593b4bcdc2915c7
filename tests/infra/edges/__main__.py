"""`python -m tests.infra.edges aws`: every call that has to go through, and what keeps it from doing so."""

import sys

from tests.infra.edges import here, needs


def main(cloud: str) -> None:
    """Print one call a line, the broken ones with the reason, and then what is open and nobody needs."""
    cluster = here.standing(cloud)
    for need in needs.needs(cluster, cloud):
        broken = "; ".join(needs.broken(cluster, need)) or "goes through"
        print(f"{need.client} -> {need.server}:{need.port}/{need.protocol} ({need.why}): {broken}")
    for rule in needs.unused(cluster, cloud):
        print(f"open and not needed on {cloud}: {rule}")


if __name__ == "__main__":
    main(sys.argv[1])
