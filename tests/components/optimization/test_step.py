"""The step on a real package and real partitions."""

import json
from pathlib import Path

import numpy as np
import pytest

from components.optimization import core
from components.optimization.__main__ import body, optimize, parser
from nightshift.contracts import package
from nightshift.contracts.optimization import ORIGINAL, Optimization
from nightshift.contracts.section import read_section
from nightshift.contracts.verdict import Verdict
from nightshift.errors import UserError
from nightshift.tabular.inputs import Scorer
from nightshift.tasks.tabular.optimization import Rows
from tests.components import samples


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder, frame = tmp_path_factory.mktemp("trained"), samples.features()
    sample = frame[frame["event_time"] < "2024-03-17"][["amount", "risk", "label"]]
    samples.write_model(
        folder / "model",
        {"first": [1.0, 0.5], "second": [0.0, 1.0]},
        sample.assign(score=0.1),
        validated_until="2024-03-19",
    )
    # a fraud on the first training day, whose customer pays again on both validation days
    frame.loc[[121, 161], "customer"] = frame.loc[0, "customer"]
    return {"features": samples.write_features(folder, frame), "model": str(folder / "model")}


def flags(trained: dict[str, str], folder: Path):
    words = {**trained, "config": json.dumps(samples.CONFIG), "optimized": str(folder / "optimized")}
    return parser().parse_args([word for name, value in words.items() for word in (f"--{name}", value)])


def test_every_form_is_measured_on_the_rows_that_the_candidate_was_chosen_on(trained, tmp_path) -> None:
    metrics = body(flags(trained, tmp_path))
    place = str(tmp_path / "optimized")
    found, model = Optimization.read(f"{place}/optimization.json"), package.load(place)
    assert [each.name for each in found.attempts] == [
        ORIGINAL, "graph", "int8 dynamic", "int8 static", "cuda", "tensorrt",
    ]  # fmt: skip
    assert found.rows == 78
    assert found.attempts[0].loss
    assert all(len(each.latencies) == 2 for each in found.attempts if each.size)
    assert found.original_sha256 == package.load(trained["model"]).sha256
    # whichever is fastest here: the package is the one that the figures and the verdict are about
    assert model.sha256 == found.sha256 == Verdict.read(f"{place}/verdict.json").subject
    assert metrics["form"] == found.chosen
    assert read_section(place).outcome.label == ("unchanged" if found.chosen == ORIGINAL else "optimized")


def test_the_best_form_goes_into_the_package_and_scores(trained, tmp_path) -> None:
    def measure(forms, rows: Rows):
        """Whatever is fastest here: static INT8 is the one that is accepted."""
        found = core.attempts(forms, rows)
        return [each.model_copy(update={"accepted": each.name == "int8 static"}) for each in found]

    optimize(flags(trained, tmp_path), measure)
    place = str(tmp_path / "optimized")
    model, original = package.load(place), package.load(trained["model"])
    assert model.lineage.optimized.form == "int8 static"
    assert model.graph("first").name == "first.int8-static.onnx"
    rows = samples.features()
    ours, theirs = Scorer(place, model).score(rows), Scorer(trained["model"], original).score(rows)
    assert not np.array_equal(ours, theirs)
    assert ours == pytest.approx(theirs, abs=0.05)
    assert np.array_equal(
        Scorer(place, model, "second").score(rows), Scorer(trained["model"], original, "second").score(rows)
    )


def test_a_package_whose_graph_is_spoiled_is_refused_and_nothing_is_written(trained, tmp_path) -> None:
    package.copy(trained["model"], str(tmp_path / "model"))
    (tmp_path / "model" / "first.onnx").write_bytes(b"spoiled")
    with pytest.raises(UserError, match=r"is not the file that model\.json names"):
        body(flags(trained | {"model": str(tmp_path / "model")}, tmp_path))
    assert not (tmp_path / "optimized").exists()
