"""`python -m infra.policies aws mine` checks your environment: it prints a line per finding and exits with code 2."""

import argparse
import sys
from collections.abc import Sequence

from infra.policies import environment
from infra.policies.findings import judge
from nightshift.runtime.errors import UserError


def main(argv: Sequence[str] | None = None) -> None:
    """Print the findings and exit: 0 without any, 2 with some or when the environment does not exist."""
    parser = argparse.ArgumentParser(prog="infra.policies", description=__doc__)
    parser.add_argument("cloud", choices=("aws", "gcp"))
    parser.add_argument("environment", help="its file is infra/answers/<cloud>-<environment>.yaml")
    args = parser.parse_args(argv)
    try:
        findings = judge(environment.read(args.cloud, args.environment))
    except UserError as error:
        print(f"policies: {error}", file=sys.stderr)
        sys.exit(2)
    print("\n".join(findings) or f"policies: {args.cloud}/{args.environment} has no findings")
    sys.exit(2 if findings else 0)


if __name__ == "__main__":
    main()
