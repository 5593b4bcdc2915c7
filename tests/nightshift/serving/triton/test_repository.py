"""What is written for Triton, as files: no Triton is needed."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift.serving.triton import features
from nightshift.serving.triton.__main__ import body, parser
from nightshift_testkit.fixtures import save
from tests.components import pictures
from tests.nightshift.serving import texts
from tests.nightshift.serving.test_events import model

GOLDEN = Path(__file__).with_name("golden")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Four models of the same inputs."""
    folder = tmp_path_factory.mktemp("packages")
    return [save(folder / str(number), number / 10) for number in range(1, 5)]


@pytest.fixture
def ask(tmp_path, packages):
    """Publish a version with the command's flags: `ask(version, *flags)`; returns the repository."""

    def publish(version: int, *words: str, package: str | None = None) -> Path:
        flags = ["--model", package or packages[version - 1], "--name", "fraud", "--version", str(version)]
        body(StepContext(parser().parse_args([*flags, "--output", str(tmp_path / "models"), *words])))
        return tmp_path / "models"

    return publish


def content(folder: Path) -> dict[str, Any]:
    """Every file and when it was written, and the empty folders."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.is_file() and path.read_bytes())
        for path in sorted(folder.rglob("*"))
    }


def versions(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "fraud").iterdir() if path.is_dir())


def test_a_repository_has_the_graph_the_feature_step_and_their_ensemble(ask, packages) -> None:
    models = ask(1, "--max-batch", "64", "--preferred", "32,16", "--delay-us", "500", "--queue", "100", "--keep", "3")

    texts = {str(path.relative_to(models)): path.read_text() for path in models.rglob("*.pbtxt")}
    assert texts == {str(path.relative_to(GOLDEN)): path.read_text() for path in GOLDEN.rglob("*.pbtxt")}
    graph = Path(packages[0], "logistic_regression.onnx").read_bytes()
    assert (models / "fraud/1/model.onnx").read_bytes() == graph
    manifest, code = models / "fraud_features/1/model.json", models / "fraud_features/1/model.py"
    assert manifest.read_bytes() == Path(packages[0], "model.json").read_bytes()
    assert code.read_bytes() == Path(features.__file__).with_name("model.py").read_bytes()
    assert [path.name for path in (models / "fraud_raw").iterdir() if path.is_dir()] == ["1"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--gpus", "2"], "instance_group {\n  kind: KIND_GPU\n  count: 1\n  gpus: 0\n  gpus: 1\n}"),
        (["--instances", "3"], "instance_group {\n  kind: KIND_CPU\n  count: 3\n}"),
        (["--serve", "1"], "version_policy {\n  specific {\n    versions: 1\n  }\n}"),
        (["--serve-latest", "2"], "version_policy {\n  latest {\n    num_versions: 2\n  }\n}"),
        ([], "dynamic_batching {\n  max_queue_delay_microseconds: 0\n}"),
        (["--cache"], "response_cache {\n  enable: true\n}"),
    ],
)
def test_a_flag_is_in_the_configuration(ask, words, text) -> None:
    assert text in (ask(1, *words) / "fraud/config.pbtxt").read_text()


def test_a_model_that_is_published_again_changes_no_file(ask) -> None:
    before = content(ask(1))
    assert content(ask(1)) == before


def test_another_model_of_the_same_version_is_refused_and_changes_nothing(ask, packages) -> None:
    before = content(folder := ask(1))
    with pytest.raises(UserError, match=r"version 1 in .* is another model, .*; give this one a --version of its own"):
        ask(1, package=packages[1])
    assert content(folder) == before


def test_a_model_with_other_inputs_is_refused_since_versions_share_a_configuration(ask, tmp_path) -> None:
    before = content(folder := ask(1))
    with pytest.raises(UserError, match=r"takes other inputs than this model: 4 columns .*; publish it under another"):
        ask(2, package=model(tmp_path / "other"))
    assert content(folder) == before


def test_a_damaged_package_is_refused_and_no_version_appears(ask, packages, tmp_path) -> None:
    damaged = Path(shutil.copytree(packages[1], tmp_path / "damaged"))
    (damaged / "logistic_regression.onnx").write_bytes(b"x")
    folder = ask(1)
    with pytest.raises(UserError, match=r"is not the file that model.json names"):
        ask(2, package=str(damaged))
    ask(1)
    assert versions(folder) == ["1"]


def test_the_last_versions_and_those_that_are_served_stay(ask) -> None:
    for version in (1, 2, 3):
        folder = ask(version, "--keep", "3")
    ask(4, "--keep", "2", "--serve", "1,4")
    assert versions(folder) == ["1", "3", "4"]
    ask(4, "--keep", "1", "--serve-latest", "2")
    assert versions(folder) == ["3", "4"]
    ask(4, "--keep", "1")
    assert versions(folder) == ["4"]


def test_a_version_that_is_to_be_served_has_to_be_there(ask) -> None:
    before = content(folder := ask(1))
    with pytest.raises(UserError, match=r"serve names version 7; there will be 1, 2"):
        ask(2, "--serve", "2,7")
    assert content(folder) == before


def test_what_was_cut_short_is_removed_by_the_next(ask) -> None:
    folder = ask(1)
    for left in ("fraud/2.draft", "fraud/9.withdrawn", "fraud_features/1.draft"):
        (folder / left).mkdir()
        (folder / left / "model.onnx").touch()
    ask(2)
    assert versions(folder) == ["1", "2"]
    assert [path.name for path in (folder / "fraud_features").iterdir() if path.is_dir()] == ["1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--version", "0"], "version is '0'; give a number from 1 to"),
        (["--max-batch", "x"], "max-batch is 'x'; give a number from 1 to"),
        (["--preferred", "8,2000"], "preferred is '2000'; give a number from 1 to 1024"),
        (["--name", "../fraud"], "name is '../fraud'; give letters"),
        (["--output", "s3://bucket/models"], "output is 's3://bucket/models'; give a folder on this machine"),
        (["--snapshot", "a"], "snapshot and state go together"),
    ],
)
def test_a_wrong_flag_is_told_what_is_allowed(ask, words, message) -> None:
    with pytest.raises(UserError) as error:
        ask(1, *words)
    assert str(error.value).startswith(message)


def test_a_model_of_images_takes_files_and_pixels_and_has_the_names_of_its_classes(ask, packages, tmp_path) -> None:
    first, second = (pictures.model(tmp_path / str(seed), seed) for seed in (1, 2))
    ask(1, package=first)
    models = ask(2, package=second)
    assert {path.name for path in models.iterdir() if path.is_dir()} == {"fraud", "fraud_features", "fraud_raw"}
    assert versions(models) == ["1", "2"]
    assert (models / "fraud/labels.txt").read_text().split() == pictures.CONFIG["task"]["classes"]
    text = (models / "fraud/config.pbtxt").read_text()
    assert 'input {\n  name: "inputs"\n  data_type: TYPE_UINT8\n  dims: 16\n  dims: 16\n  dims: 1\n}' in text
    output = 'output {\n  name: "score"\n  data_type: TYPE_FP32\n  dims: 4\n  label_filename: "labels.txt"\n}'
    assert output in text
    image_input = 'input {\n  name: "image"\n  data_type: TYPE_STRING\n  dims: 1\n}'
    for name in ("fraud_features", "fraud_raw"):
        assert image_input in (models / name / "config.pbtxt").read_text()
    with pytest.raises(UserError, match=r"takes other inputs than this model: .*'side': 16, .*, not 4 columns"):
        ask(3, package=packages[0])
    with pytest.raises(UserError, match="snapshot and state are of raw events"):
        ask(3, "--snapshot", "s", "--state", "t", package=first)


def test_the_tokenizer_of_a_model_of_texts_is_where_they_are_tokenized(ask, tmp_path) -> None:
    uri = texts.with_tokenizer(tmp_path / "first")
    models = ask(1, package=uri)
    assert (models / "fraud_features/1/tokenizer.json").read_bytes() == Path(uri, "tokenizer.json").read_bytes()
    assert 'name: "text"' in (models / "fraud_raw/config.pbtxt").read_text()
    with pytest.raises(UserError, match=r"takes other inputs than this model: .*'vocabulary': 4, .*'vocabulary': 512"):
        ask(2, package=texts.saved(tmp_path / "hashed"))


def test_the_feature_step_has_an_instance_for_each_of_the_graph_unless_it_has_a_state(ask, tmp_path) -> None:
    config = ask(1, "--instances", "3") / "fraud_features/config.pbtxt"
    assert "count: 3" in config.read_text()
    ask(1, "--instances", "3", "--snapshot", "s", "--state", "t")
    assert "count: 1" in config.read_text()
