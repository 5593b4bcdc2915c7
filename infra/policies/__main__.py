"""`python -m infra.policies aws mine` checks your environment: it prints its findings, and how to allow each."""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from infra.policies import environment
from infra.policies.findings import report
from nightshift.runtime.errors import UnavailableError, UserError


def main(argv: Sequence[str] | None = None) -> None:
    """Print the findings and exit: 2 if something breaks or exposes, or an environment does not exist; else 0."""
    parser = argparse.ArgumentParser(prog="infra.policies", description=__doc__)
    parser.add_argument("cloud", choices=("aws", "gcp"))
    parser.add_argument("environment", help="its file is infra/answers/<cloud>-<environment>.yaml")
    args = parser.parse_args(argv)
    try:
        judged = report(environment.read(args.cloud, args.environment), datetime.now(UTC).date())
    except (UserError, UnavailableError) as error:
        print(f"policies: {error}", file=sys.stderr)
        sys.exit(1 if isinstance(error, UnavailableError) else 2)
    print("\n".join(judged.lines()) or f"policies: {args.cloud}/{args.environment} has no findings")
    sys.exit(2 if judged.fails else 0)


if __name__ == "__main__":
    main()
