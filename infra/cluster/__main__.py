"""`python -m infra.cluster install aws dev` prints the commands; `make cluster-install` gives them to a shell."""

import argparse
import sys
from pathlib import Path

import yaml

from infra.cluster import core
from nightshift.errors import UserError
from pipelines.environments import SITES

CHARTS = Path(__file__).with_name("charts.yaml")


def main() -> None:
    """Print one command a line and exit: 2 when the table has to be fixed."""
    parser = argparse.ArgumentParser(prog="infra.cluster", description=__doc__)
    parser.add_argument("action", choices=("install", "uninstall"))
    parser.add_argument("cloud", choices=("aws", "gcp"))
    parser.add_argument("environment", help="the cluster is nightshift-<environment>")
    args = parser.parse_args()
    charts = yaml.safe_load(CHARTS.read_text())
    try:
        commands = (
            [
                f"REGISTRY={SITES[args.cloud].registry}",
                *core.install(charts, args.cloud, f"nightshift-{args.environment}"),
            ]
            if args.action == "install"
            else core.uninstall(charts, args.cloud)
        )
    except UserError as error:
        print(f"cluster: {error}", file=sys.stderr)
        sys.exit(2)
    print("\n".join(commands))


if __name__ == "__main__":
    main()
