"""Two models measured in turn, by real processes."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from onnx import TensorProto, helper

from nightshift.contracts import package
from nightshift.contracts.preprocessing import Inputs
from nightshift.contracts.verdict import Decision, Verdict
from nightshift.runtime.errors import UserError
from nightshift_perf.pairs import BenchmarkProcess, compare_kernels
from nightshift_testkit import packages
from pipelines.cli.__main__ import parse_command_line
from tests.components import samples

COLUMNS = [f"x{number}" for number in range(16)]


def model(folder: Path, layers: int) -> str:
    """A package whose graph multiplies by a matrix so many times."""
    random = np.random.default_rng(0)
    square = (random.random((16, 16)) / 16).astype(np.float32)
    names = [package.INPUT, *(f"h{number}" for number in range(layers))]
    nodes = [helper.make_node("MatMul", [here, "w"], [there]) for here, there in pairwise(names)]
    nodes.append(helper.make_node("ReduceMean", [names[-1], "columns"], [package.OUTPUT], keepdims=0))
    taken, scores = (package.INPUT, TensorProto.FLOAT, [None, 16]), (package.OUTPUT, TensorProto.FLOAT, [None])
    graph = samples.serialized(nodes, taken, [scores], {"w": square, "columns": np.array([1])})
    rows = pd.DataFrame(random.random((1024, 16)), columns=COLUMNS).assign(label=0, score=0.5)
    package.save(
        str(folder), packages.manifest({"m": graph}, Inputs(numeric=COLUMNS, categorical={})), {"m": graph}, rows
    )
    return str(folder)


class Fake:
    """A side whose kernels take what a list says, again and again."""

    def __init__(self, **seconds: float) -> None:
        self.names, self._seconds = list(seconds), seconds

    def __enter__(self) -> "Fake":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def seconds(self, name: str, calls: int) -> float:
        return calls * self._seconds[name]


def test_rounds_are_measured_with_new_sides_and_stand_in_turn() -> None:
    rounds = iter([1.0, 1.5])

    times = compare_kernels(lambda: Fake(a=1.0, b=1.0), lambda: Fake(a=next(rounds), c=1.0), pairs=3, rounds=2)

    assert times == {"a": [1.0, 1.5, 1.0, 1.5, 1.0, 1.5]}


@pytest.mark.slow
def test_the_command_finds_a_larger_graph_to_be_slower(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, layers in (("usual", 8), ("slow", 32)):
        run = tmp_path / "runs" / name
        (run / "training").mkdir(parents=True)
        (run / "run.json").write_text("{}")
        model(run / "training" / "model", layers)
    words = ["slow", "--baseline", "usual", "--pairs", "60", "--rounds", "1", "--workspace", str(tmp_path)]
    args = parse_command_line(["perf", "compare", *words, "--output", str(tmp_path / "verdict.json")])

    assert args.command(args) == 2

    verdict = Verdict.read(str(tmp_path / "verdict.json"))
    assert verdict.decision is Decision.FAIL
    assert [measure.name for measure in verdict.measures] == ["making the matrix", "scoring one row", "scoring a batch"]
    assert any(reason.startswith("scoring a batch takes") for reason in verdict.reasons)
    assert (verdict.value("scoring a batch") or 0) > 1.5
    assert "scoring a batch takes" in capsys.readouterr().out


@pytest.mark.slow
def test_a_model_that_cannot_be_measured_is_a_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere cannot be measured"), BenchmarkProcess(str(tmp_path / "nowhere")):
        pass


@pytest.mark.parametrize(
    ("words", "message"),
    (
        (["--baseline", "nothing"], "there is no run 'nothing'"),
        (["--baseline", "1", "--pairs", "0"], "--pairs is 0 and --rounds is 5; give 1 or more"),
        (["--baseline", "1", "--baseline-code", "docs"], "docs has no folder `components`"),
        (["--baseline", "champion"], "holds no model yet"),
    ),
)
def test_what_cannot_be_compared_is_refused(words: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "runs" / "mine" / "training" / "model").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "run.json").write_text("{}")
    (tmp_path / "runs" / "mine" / "training" / "model" / "model.json").write_text("{}")
    args = parse_command_line(["perf", "compare", "mine", *words, "--workspace", str(tmp_path)])

    with pytest.raises(UserError, match=message):
        args.command(args)
