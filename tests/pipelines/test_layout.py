"""How large the interpreters of compiled pipelines may become."""

from pathlib import Path

import pipelines

INTERPRETERS = ("ir.py", "loops.py", "engines/local/run.py", "engines/airflow/interpreter.py")
LINES = 730


def test_the_reader_of_compiled_pipelines_and_both_interpreters_stay_small() -> None:
    root = Path(pipelines.__file__).parent
    assert sum(len((root / name).read_text().splitlines()) for name in INTERPRETERS) < LINES
