"""`python -m tests.infra.sown [FILE...]`: sow the mistakes of files here and print which the policies name."""

import sys
import tempfile
from pathlib import Path

from tests.infra.checks import CLOUDS
from tests.infra.sown import judge
from tests.infra.sown.judge import ENVIRONMENT


def main(*names: str) -> None:
    """Print a line a mistake, and the share that was named."""
    mistakes = [mistake for name in names for mistake in judge.read(name)]
    verdicts = []
    with tempfile.TemporaryDirectory() as scratch:
        for cloud in CLOUDS:
            groups = judge.grouped([mistake for mistake in mistakes if mistake.cloud == cloud])
            copies = {"sound": (ENVIRONMENT, judge.copy_of(Path(scratch, cloud), []))} | {
                f"m{at}": (ENVIRONMENT, judge.copy_of(Path(scratch, f"{cloud}{at}"), group))
                for at, group in enumerate(groups)
            }
            described = judge.described(cloud, copies)
            for at, group in enumerate(groups):
                findings = judge.new_findings(described["sound"], described[f"m{at}"])
                for mistake in group:
                    naming = [finding for finding in sorted(findings) if mistake.is_named([finding])]
                    verdicts.append(bool(naming))
                    print(f"{'named' if naming else 'MISSED'} {mistake}\n    {naming[0] if naming else ''}", flush=True)
    print(f"named {sum(verdicts)} of {len(verdicts)}: {sum(verdicts) / len(verdicts):.0%}")


if __name__ == "__main__":
    main(*sys.argv[1:] or judge.SETS)
