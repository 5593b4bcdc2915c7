"""The step on a real package and real partitions."""

import json
from argparse import Namespace
from pathlib import Path

import pytest

from components.optimization import compare, component, forms
from components.optimization.__main__ import body
from nightshift.config import parse
from nightshift.contracts import package, tables
from nightshift.contracts.optimization import ORIGINAL, Optimization
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.section import read_section
from nightshift.contracts.tables import Table
from nightshift.contracts.verdict import Verdict
from nightshift.models.tensors import row_count
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift.tabular.inputs import FrameScorer
from nightshift.tasks.tabular import optimization
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


def context(trained: dict[str, str], folder: Path, form: str) -> StepContext:
    config = samples.CONFIG | {"optimization": {"form": form}}
    words = {**trained, "config": json.dumps(config), "optimized": str(folder / "optimized")}
    return StepContext(
        component.optimization.parser().parse_args(
            [word for name, value in words.items() for word in (f"--{name}", value)]
        )
    )


def optimized(trained: dict[str, str], folder: Path, form: str) -> tuple[Optimization, ModelPackage]:
    """What the step says of a form, and the package that it writes."""
    metrics = body(context(trained, folder, form))
    uri = str(folder / "optimized")
    result, model = Optimization.read(f"{uri}/optimization.json"), package.load(uri)
    assert metrics == {"form": result.chosen}
    assert model.sha256 == result.sha256 == Verdict.read(f"{uri}/verdict.json").subject
    assert result.original_sha256 == package.load(trained["model"]).sha256
    return result, model


def test_rows_that_miss_a_number_are_among_those_that_scales_come_from(trained, tmp_path) -> None:
    uri, model = str(tmp_path / "model"), package.load(trained["model"])
    nullable = model.preprocessing.model_copy(update={"nullable": ["risk"]})
    changes = {"preprocessing": nullable, "files": [file for file in model.files if file.name != package.REFERENCE]}
    graphs = {name: package.read_graph(trained["model"], model, name) for name in model.candidates}
    reference = package.read_reference(trained["model"]).assign(risk=float("nan"))
    model = package.save(uri, model.model_copy(update=changes), graphs, reference)

    sample, _ = optimization.OptimizationTask().read_samples(
        parse(samples.CONFIG), tables.read_table(trained["features"]), uri, model, 0.02
    )

    assert row_count(sample) == len(reference) > 0


def test_a_graph_is_served_as_it_was_trained_unless_the_config_says_otherwise(trained, tmp_path) -> None:
    result, model = optimized(trained, tmp_path, ORIGINAL)
    assert [attempt.name for attempt in result.attempts] == [result.chosen] == [ORIGINAL]
    assert model.sha256 == package.load(trained["model"]).sha256
    assert read_section(str(tmp_path / "optimized")).outcome is None


def test_the_form_of_the_config_goes_into_the_package_and_scores_and_equal_nights_write_equal_bytes(
    trained, tmp_path
) -> None:
    result, model = optimized(trained, tmp_path, "graph")
    assert (result.chosen, result.rows) == ("graph", 78)
    assert model.lineage.optimized.form == "graph"
    assert model.graph("first").name == "first.graph.onnx"
    assert read_section(str(tmp_path / "optimized")).outcome.label == "optimized"
    original, rows = package.load(trained["model"]), samples.features()
    for candidate in ("first", "second"):
        ours = FrameScorer(str(tmp_path / "optimized"), model, candidate).score(rows)
        assert ours == pytest.approx(FrameScorer(trained["model"], original, candidate).score(rows), abs=1e-6)
    again, _ = optimized(trained, tmp_path / "again", "graph")
    assert again == result


def test_a_form_that_cannot_be_made_leaves_the_original_and_says_why(trained, tmp_path, monkeypatch) -> None:
    def fails(*_: object) -> bytes:
        raise ValueError("it has no operation that INT8 could replace")

    monkeypatch.setitem(forms.MAKERS, "int8 static", fails)
    result, model = optimized(trained, tmp_path, "int8 static")
    assert (result.chosen, model.sha256) == (ORIGINAL, result.original_sha256)
    verdict = Verdict.read(str(tmp_path / "optimized" / "verdict.json"))
    assert verdict.reasons[0].endswith(
        "and not 'int8 static': It could not be made: it has no operation that INT8 could replace"
    )


@pytest.mark.parametrize("form", [ORIGINAL, "graph"])
def test_files_that_answer_are_the_models_identity_and_are_made_anew_of_the_form_that_is_served(
    trained, tmp_path, monkeypatch, form
) -> None:
    def index(_: object, table: Table, uri: str, model: ModelPackage, served: bytes | None) -> list[tuple[str, bytes]]:
        return [("rows.usearch", f"{len(table.partitions)} {served is None} {len(model.answer_files)}".encode())]

    monkeypatch.setattr(optimization.OptimizationTask, "answer_files", index)
    _, model = optimized(trained, tmp_path, form)
    assert model.answer_files == ["rows.usearch"]
    content = package.map_file(str(tmp_path / "optimized"), model, "rows.usearch")
    assert bytes(content).endswith(f"{form == ORIGINAL} 0".encode())
    without = model.model_copy(update={"answer_files": []})
    assert without.sha256 != model.sha256

    _, again = optimized({**trained, "model": str(tmp_path / "optimized")}, tmp_path / "again", ORIGINAL)
    assert again.answer_files == ["rows.usearch"]
    content = package.map_file(str(tmp_path / "again" / "optimized"), again, "rows.usearch")
    assert bytes(content).endswith(b"True 1")


def test_every_form_is_compared_on_the_rows_that_the_candidate_was_chosen_on(trained, tmp_path) -> None:
    compare.body(StepContext(Namespace(**trained, config=json.dumps(samples.CONFIG), result=str(tmp_path))))
    result = Optimization.read(str(tmp_path / "optimization.json"))
    assert [attempt.name for attempt in result.attempts] == [
        ORIGINAL, "graph", "int8 dynamic", "int8 static", "cuda", "tensorrt",
    ]  # fmt: skip
    assert result.rows == 78
    assert result.attempts[0].loss
    assert all(len(attempt.latencies) == 2 for attempt in result.attempts if attempt.size)


def test_a_package_whose_graph_is_spoiled_is_refused_and_nothing_is_written(trained, tmp_path) -> None:
    package.copy(trained["model"], str(tmp_path / "model"))
    (tmp_path / "model" / "first.onnx").write_bytes(b"spoiled")
    with pytest.raises(UserError, match=r"is not the file that model\.json names"):
        body(context(trained | {"model": str(tmp_path / "model")}, tmp_path, "graph"))
    assert not (tmp_path / "optimized").exists()
