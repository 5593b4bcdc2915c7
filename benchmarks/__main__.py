"""Run the benchmarks of features, ingestion and orchestration, print their tables, and write runs/bench.json."""

import argparse
import json
import os
from pathlib import Path

from benchmarks import features, ingestion, orchestration


def main() -> None:
    """Run all of them."""
    argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__).parse_args()
    runs = {"orchestration": orchestration.run, "features": features.run, "ingestion": ingestion.run}
    results = {"cores": os.cpu_count()} | {name: run() for name, run in runs.items()}
    path = Path("runs/bench.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
