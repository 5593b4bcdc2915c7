"""How large the interpreters of compiled pipelines may become."""

from pathlib import Path

import pipelines

INTERPRETERS = ("ir.py", "engines/local/run.py", "engines/airflow/interpreter.py")
LINES = 600
LOOP_LINES = 100  # of what knows the one loop for all of them


def count_lines(name: str) -> int:
    return len((Path(pipelines.__file__).parent / name).read_text().splitlines())


def test_the_reader_of_compiled_pipelines_and_both_interpreters_stay_small() -> None:
    assert sum(map(count_lines, INTERPRETERS)) < LINES and count_lines("loops.py") < LOOP_LINES
