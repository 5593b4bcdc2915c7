"""Run the benchmarks of features, ingestion and orchestration, and print their tables."""

import argparse

from benchmarks import features, ingestion, orchestration


def main() -> None:
    """Run all of them."""
    argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__).parse_args()
    for run in (orchestration.run, features.run, ingestion.run):
        run()


if __name__ == "__main__":
    main()
