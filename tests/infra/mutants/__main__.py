"""`make infra-mutants`: sow them, judge them, and print the share that was seen and those that were not."""

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from infra.terraform import INFRA
from tests.infra.mutants import accepted
from tests.infra.mutants.judge import Verdicts, verdicts
from tests.infra.mutants.sow import mutants


def main() -> None:
    """Exit with 1 when a mutant survived that nobody has accepted."""
    parser = argparse.ArgumentParser(prog="infra-mutants", description=__doc__)
    parser.add_argument("--count", default="", help="number of mutants to try (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default: 0)")
    parser.add_argument("--only", default="", help="prefix of the files to change, such as aws/ (default: all files)")
    args = parser.parse_args()
    every = mutants(INFRA)
    chosen = random.Random(args.seed).sample(every, min(int(args.count), len(every))) if args.count else every
    sown = [mutant for mutant in chosen if mutant.file.startswith(args.only)]
    print(f"infra-mutants: {len(sown)} of {len(every)}, seed {args.seed}")
    with tempfile.TemporaryDirectory() as scratch:
        seen = verdicts(sown, Path(scratch), lambda step: print(f"  {step}", file=sys.stderr, flush=True))
    sys.exit(1 if show(seen) else 0)


def show(seen: Verdicts) -> list[str]:
    """Print what saw how many, and the survivors; return those that nobody has accepted."""
    for check, count in Counter(check for check in seen.values() if check).most_common():
        print(f"{count:6} seen by {check}")
    survivors = sorted((mutant for mutant, check in seen.items() if not check), key=str)
    left = accepted.unexplained(survivors)
    print(f"{len(survivors):6} survived, {len(left)} of them unexplained")
    print(f"caught: {(len(seen) - len(survivors)) / len(seen):.1%}")
    for mutant in survivors:
        print(f"  {mutant}  [{accepted.reason(mutant) or 'NOT ACCEPTED'}]")
    return left


if __name__ == "__main__":
    main()
