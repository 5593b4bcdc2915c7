"""A model of images is served, and asked about an image that lies there as a file."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from components.deployment import component
from components.deployment.__main__ import body
from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.deployment import Deployment
from nightshift.contracts.state import State
from nightshift.contracts.verdict import FILE, Verdict
from nightshift.local import endpoint, examples
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from pipelines.cli import models
from pipelines.cli.__main__ import parse_command_line
from tests.components import pictures
from tests.components.states import state

JPEG = pictures.file("JPEG", size=(40, 30))


def deploy(folder: Path, model: str, run: str) -> Deployment:
    subject = package.load(model).sha256
    for gate, advisory in (("evaluation", False), ("drift", True)):
        verdict = Verdict(
            gate=gate, decision="pass", reasons=["Fine."], measures=[], subject=subject, advisory=advisory
        )
        verdict.write(str(folder / gate / FILE))
    storage.write_bytes(str(folder / "evaluation/model_card.md"), b"")
    values = {
        "config": json.dumps(pictures.CONFIG),
        "date": pictures.DATE,
        "features": "none",
        "model": model,
        "evaluation": str(folder / "evaluation"),
        "drift": str(folder / "drift"),
        "state": state(folder, target="local"),
        "run": run,
        "deployment": str(folder / "deployment.json"),
    }
    body(
        StepContext(
            component.deployment.parser().parse_args(
                [part for name, value in values.items() for part in (f"--{name}", value)]
            )
        )
    )
    return Deployment.read(values["deployment"])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_a_model_of_images_is_served_and_the_curl_line_sends_a_file_of_the_newest_day(
    stocked, tmp_path, capsys
) -> None:
    pictures.lake(tmp_path, pictures.file(size=(90, 90), seed=1), JPEG)  # the smallest is the example request
    try:
        record = deploy(tmp_path, pictures.model(tmp_path / "model"), "a")
        assert (record.decision, record.endpoint_checked) == ("promoted", True)
        file = tmp_path / "registry/endpoint/shapes/example.jpeg"
        assert (record.example, file.read_bytes()) == ({"image": str(file)}, JPEG)
        reply = json.loads(subprocess.run(shlex.split(record.curl), capture_output=True, check=True, timeout=60).stdout)
        assert set(reply) == {"label", "score", "scores", "model_version"}
        models.promote(parse_command_line(["promote", "1", "--config", "shapes", "--workspace", str(tmp_path)]))
        assert "answers with version 1" in capsys.readouterr().out
        about = httpx.get(f"{record.endpoint}/model").json()
        assert about["inputs"]["classes"] == pictures.CONFIG["task"]["classes"]
    finally:
        endpoint.stop(stocked, "shapes")


def test_without_an_image_in_the_lake_nothing_can_be_asked(tmp_path) -> None:
    kept = State.parse(state(tmp_path, target="local"))
    with pytest.raises(UserError, match="has no image to ask the endpoint about; run ingestion"):
        examples.build_example(kept, "shapes", pictures.model(tmp_path / "model"))
