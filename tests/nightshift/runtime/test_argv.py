"""Arguments beyond what Linux takes: a file stands for each, or the engine refuses the run with its size."""

import json
import subprocess
from pathlib import Path

import pytest

from nightshift.runtime.argv import LONGEST, require_short, shorten
from nightshift.runtime.errors import UserError
from nightshift.runtime.flags import StepParser
from tests.components.ingestion.conftest import CONFIG, Step

SENSORS = [f"sensor_{number:05}" for number in range(10_000)]
WIDE = CONFIG | {"columns": CONFIG["columns"] | {"numeric": SENSORS}}


def test_a_step_gets_every_argument_whole_whatever_its_length(tmp_path: Path) -> None:
    texts = {"short": "x" * LONGEST, "config": json.dumps(WIDE), "state": json.dumps("\u00e9\u2028\n" * LONGEST)}
    flags = [word for name, text in texts.items() for word in (f"--{name}", text)]

    command = shorten(flags, tmp_path)

    assert max(map(len, command)) <= LONGEST
    assert (
        vars(StepParser("any", "").takes(**dict.fromkeys(texts, "a text")).parse_args(command)).items() >= texts.items()
    )


@pytest.mark.slow
def test_a_step_of_thousands_of_columns_starts(tmp_path: Path) -> None:
    command = Step(tmp_path).command(WIDE, tmp_path / "nowhere")
    with pytest.raises(OSError, match="too long"):
        subprocess.run(command, check=False)

    done = subprocess.run(shorten(command, tmp_path), capture_output=True, text=True, check=False, timeout=300)

    assert (done.returncode, "does not exist" in done.stderr) == (2, True), done.stderr


def test_an_engine_that_passes_arguments_alone_refuses_with_the_size_and_the_limit() -> None:
    require_short({"config": CONFIG}, "Kubeflow")

    with pytest.raises(UserError, match=r"have 1\d\d,\d{3} bytes, .* takes 131,071 bytes; name fewer columns") as error:
        require_short({"config": WIDE, "date": "2025-03-10"}, "Kubeflow")
    assert "Kubeflow passes them to a container as one argument" in str(error.value)
