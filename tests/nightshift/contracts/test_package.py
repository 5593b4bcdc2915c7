"""A model on disk: what it is identified by, what it names, how it is copied."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.package import Datatype, DecisionRule, File, Format, ModelPackage, Signature, Tensor
from nightshift.contracts.preprocessing import Inputs
from nightshift.runtime.errors import UserError
from nightshift_testkit import packages
from nightshift_testkit.s3 import bucket, environment
from tests.components import samples

WEIGHTS = {"first": [1.0, 0.0], "second": [0.25, 0.5]}
MEGABYTE = 1 << 20
LARGE = "large.safetensors"

# copies a package as its own process, and prints the most memory that it had
COPY = """
import sys
from nightshift.runtime.memory import peak_memory
from nightshift.contracts import package
package.copy(*sys.argv[1:])
print(peak_memory())
"""


def test_what_is_saved_is_loaded_again(tmp_path):
    reference = pd.DataFrame({"amount": [1.0], "risk": [8.0], "label": [1], "score": [0.5]})
    saved = samples.write_model(tmp_path / "model", WEIGHTS, reference)

    assert package.load(str(tmp_path / "model")) == saved
    pd.testing.assert_frame_equal(package.read_reference(str(tmp_path / "model")), reference)
    assert storage.read_json(str(tmp_path / "model" / "model.json"))["sha256"] == saved.sha256


def test_a_package_names_every_file_with_its_hash_size_and_format(tmp_path):
    model = samples.write_model(tmp_path, WEIGHTS)

    assert {file.name for file in model.files} | {"model.json"} == {path.name for path in tmp_path.iterdir()}
    for file in model.files:
        data = (tmp_path / file.name).read_bytes()
        assert (file.sha256, file.size) == (storage.sha256(data), len(data))
    assert [file.format for file in model.files] == ["onnx", "onnx", "parquet"]


def test_the_signature_is_that_of_the_inputs():
    inputs = Inputs(numeric=["amount", "risk"], categorical={"channel": ["shop", "web", "phone"]})

    assert Signature.of_scores(Tensor.of_rows(Datatype.FP32, inputs.width)).model_dump(mode="json") == {
        "inputs": [{"name": "inputs", "datatype": "FP32", "shape": [-1, 5]}],
        "outputs": [{"name": "score", "datatype": "FP32", "shape": [-1]}],
    }


def test_a_folder_without_a_manifest_is_no_model(tmp_path):
    with pytest.raises(UserError, match=r"model\.json does not exist"):
        package.load(str(tmp_path))


def test_a_manifest_that_somebody_has_changed_is_refused(tmp_path):
    samples.write_model(tmp_path, WEIGHTS)
    value = storage.read_json(f"{tmp_path}/model.json")
    storage.write_json(f"{tmp_path}/model.json", value | {"decision": {"threshold": 0.9}})

    with pytest.raises(UserError, match=r"model\.json: sha256 is '.*', which the rest does not give; run the step"):
        package.load(str(tmp_path))


@pytest.mark.parametrize("name", ["../model.onnx", "/etc/passwd", "a/b.onnx", ".hidden", "a\\b", ""])
def test_a_file_lies_in_the_packages_own_folder(name):
    with pytest.raises(ValueError, match="pattern"):
        File(name=name, sha256="0", size=1, format=Format.ONNX)


def test_no_format_can_run_code():
    with pytest.raises(ValueError, match="'onnx', 'safetensors', 'json', 'parquet', 'gguf' or 'usearch'"):
        File(name="a", sha256="0", size=1, format="pickle")


def model(graph: bytes = b"a", **changes: object) -> ModelPackage:
    return packages.manifest({"a": graph}, **changes)


@pytest.mark.parametrize(
    "other",
    [
        model(inputs=Inputs(numeric=["risk"], categorical={})),
        packages.manifest({"b": b"a"}),
        model(decision=DecisionRule(threshold=0.6)),
        model(b"b"),
    ],
    ids=["inputs", "selected", "decision", "graph"],
)
def test_the_identity_of_a_model_covers_everything_that_scores(other):
    assert other.sha256 != model().sha256


def test_the_identity_of_a_model_does_not_cover_how_long_it_took_or_where():
    later = {"a": packages.candidate("a", seconds=99.0)}

    assert model(candidates=later, lineage=packages.lineage(device="cuda")).sha256 == model().sha256


def test_a_copy_holds_all_files_or_those_that_are_asked_for(tmp_path):
    samples.write_model(tmp_path / "model", WEIGHTS)

    package.copy(f"{tmp_path}/model", f"{tmp_path}/all")
    package.copy(f"{tmp_path}/model", f"{tmp_path}/some", only=[package.REFERENCE])

    for path in (tmp_path / "model").iterdir():
        assert (tmp_path / "all" / path.name).read_bytes() == path.read_bytes()
    assert {path.name for path in (tmp_path / "some").iterdir()} == {"model.json", "reference.parquet"}


def test_a_file_that_is_not_the_one_of_the_manifest_is_not_passed_on(tmp_path):
    samples.write_model(tmp_path / "model", WEIGHTS)
    (tmp_path / "model" / "first.onnx").write_bytes(samples.linear([2.0, 0.0]))

    with pytest.raises(UserError, match=r"first\.onnx is not the file that model\.json names"):
        package.copy(f"{tmp_path}/model", f"{tmp_path}/copy")
    assert not (tmp_path / "copy" / "model.json").exists()


@pytest.fixture
def large(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A package with a file of so many megabytes, which takes no room on the disk."""
    folder = tmp_path / "model"
    samples.write_model(folder, WEIGHTS)
    with (folder / LARGE).open("wb") as file:
        file.truncate(request.param * MEGABYTE)
    digest = storage.copy(f"{folder}/{LARGE}", f"{tmp_path}/measured")
    (tmp_path / "measured").unlink()
    file = File(name=LARGE, sha256=digest, size=request.param * MEGABYTE, format=Format.SAFETENSORS)
    manifest = package.load(str(folder))
    manifest.model_copy(update={"files": [*manifest.files, file]}).write(f"{folder}/model.json")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("large", [768], indirect=True)
def test_a_package_of_any_size_is_copied_and_checked_in_little_memory(large: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-c", COPY, str(large), f"{tmp_path}/copy"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)

    assert int(done.stdout) < 300 * MEGABYTE
    assert (tmp_path / "copy" / LARGE).stat().st_size == (large / LARGE).stat().st_size
    assert package.load(f"{tmp_path}/copy") == package.load(str(large))


@pytest.mark.slow
@pytest.mark.parametrize("large", [256], indirect=True)
def test_a_package_on_an_object_store_is_copied_in_little_memory_both_ways(large: Path, tmp_path: Path) -> None:
    with bucket() as url:
        for source, target in ((str(large), "s3://lake/model"), ("s3://lake/model", f"{tmp_path}/copy")):
            words = [sys.executable, "-c", COPY, source, target]
            there = os.environ | environment(url)
            done = subprocess.run(words, capture_output=True, text=True, check=False, env=there)
            assert done.returncode == 0, done.stderr
            assert int(done.stdout) < 300 * MEGABYTE

    assert package.load(f"{tmp_path}/copy") == package.load(str(large))
