"""`make infra-faults`: inject faults, and print what saw how many and those that nothing saw."""

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from infra.terraform import INFRA
from tests.infra.injected import accepted
from tests.infra.injected.changes import find_changes
from tests.infra.injected.checks import judge_changes
from tests.infra.injected.faults import Fault, Verdicts, read_mistakes
from tests.infra.injected.policies import judge_mistakes


def main() -> None:
    """Exit with 1 when nothing saw a fault that nobody has accepted."""
    parser = argparse.ArgumentParser(prog="infra-faults", description=__doc__)
    parser.add_argument("--count", default="", help="number of changes to try (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default: 0)")
    parser.add_argument("--mistakes", action="store_true", help="try the mistakes of mistakes.yaml on the policies")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        if args.mistakes:
            rounds = read_mistakes().values()
            seen = judge_mistakes([mistake for mistakes in rounds for mistake in mistakes], Path(scratch))
        else:
            seen = judge_changes(_sample(args.count, args.seed), Path(scratch), _show_progress)
    sys.exit(1 if show(seen) else 0)


def _sample(count: str, seed: int) -> list[Fault]:
    every = find_changes(INFRA)
    chosen = random.Random(seed).sample(every, min(int(count), len(every))) if count else every
    print(f"infra-faults: {len(chosen)} of {len(every)}, seed {seed}")
    return chosen


def _show_progress(step: str) -> None:
    print(f"  {step}", file=sys.stderr, flush=True)


def show(seen: Verdicts) -> list[str]:
    """Print what saw how many, and the survivors; return those that nobody has accepted."""
    checks = Counter("a policy" if fault.reason else check for fault, check in seen.items() if check)
    for check, count in checks.most_common():
        print(f"{count:6} seen by {check}")
    survivors = sorted((fault for fault, check in seen.items() if not check), key=str)
    left = accepted.unexplained(survivors)
    print(f"{len(survivors):6} survived, {len(left)} of them unexplained")
    print(f"caught: {(len(seen) - len(survivors)) / len(seen):.1%}")
    for fault in survivors:
        print(f"  {fault}  [{accepted.reason(fault) or 'NOT ACCEPTED'}]")
    return left


if __name__ == "__main__":
    main()
