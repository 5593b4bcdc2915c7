"""Every page of docs/projects, whole nights and measurements of minutes among them."""

import argparse
import os
import subprocess
import sys

from tests import test_projects

if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m tests.nightly.projects", description=__doc__).parse_args()
    os.environ[test_projects.EVERY] = "1"
    sys.exit(subprocess.call([sys.executable, "-m", "pytest", "-q", "-n", "0", "tests/test_projects.py"]))
