import os
from pathlib import Path

pytest_plugins = ["nightshift_testkit.fixtures"]
# processes that tests start import `tests`, which is not installed
os.environ["PYTHONPATH"] = str(Path(__file__).parent)
