"""Random declarations of features over random events, many times the cases of the tests.

Their definition, the batch, the snapshot with the embedded state, late events and Redis give the same bits; see
tests/nightshift/tabular/test_declared.py, whose property tests have 155 cases.
"""

import argparse
import os
import sys

import pytest

TESTS = "tests/nightshift/tabular/test_declared.py"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.declarations", description=__doc__)
    parser.add_argument("--times", type=int, default=65, help="how many times the tests' cases; default: 10,075 cases")
    os.environ["NIGHTSHIFT_TEST_TIMES"] = str(parser.parse_args().times)
    sys.exit(pytest.main(["-q", "-n", "0", "-k", "definition or late or snapshot or redis", TESTS]))
