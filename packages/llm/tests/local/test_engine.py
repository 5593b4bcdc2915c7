"""The engine beside the endpoint: it follows the champion's file, and keeps its address."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import httpx
import pytest

from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.package import File, Format
from nightshift.local import endpoint
from nightshift.registry import Version
from nightshift.runtime.errors import UserError
from nightshift_llm import gguf
from nightshift_llm.local import engine
from nightshift_testkit import packages
from nightshift_testkit.processes import wait_until
from nightshift_testkit.servers import free_port
from packages.llm.tests import models

pytestmark = pytest.mark.slow
NAME = "tales"


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that generates whatever comes."""
    folder, tokenizer = tmp_path_factory.mktemp("llama"), models.train_tokenizer(models.READ)
    models.write_tokenizer(folder, tokenizer)
    models.tiny_llama(tokenizer.get_vocab_size()).save_pretrained(folder)
    gguf.convert(folder, folder / "llama.gguf")
    return folder / "llama.gguf"


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Path]:
    """A registry whose engines are stopped afterwards."""
    (tmp_path / "endpoint" / NAME).mkdir(parents=True)
    yield tmp_path
    endpoint.stop(str(tmp_path))


def write_version(registry: Path, number: int, content: bytes | None) -> Version:
    """Write a version, with a file for engines or without one."""
    folder, model = registry / f"{number}", packages.manifest({"llama": b"graph"})
    if content is not None:
        storage.write_bytes(str(folder / "llama.gguf"), content)
        file = File.describe("llama.gguf", content, Format.GGUF)
        model = model.model_copy(update={"files": [*model.files, file], "engine_file": file.name})
    model.write(str(folder / package.MANIFEST))
    return Version(NAME, number, str(folder), model.sha256, {})


def follow(registry: Path, version: Version) -> engine.RunningEngine | None:
    engine.follow(str(registry), version, endpoint.PATIENCE)
    return engine.find_running(str(registry), NAME)


def test_the_engine_follows_the_file_of_the_champion_at_the_same_address(registry: Path, llama: Path) -> None:
    first, second = (write_version(registry, number, llama.read_bytes()) for number in (1, 2))
    assert first.sha256 == second.sha256
    running = follow(registry, first)
    assert running
    assert follow(registry, first) == running

    replaced = follow(registry, second)

    assert replaced
    assert (replaced.url, replaced.file) == (running.url, f"{second.uri}/llama.gguf")
    assert replaced.pid != running.pid
    request = {"model": NAME, "prompt": "Each", "max_tokens": 3}
    answer = httpx.post(f"{replaced.url}/v1/completions", json=request, timeout=60).json()
    assert (answer["model"], answer["usage"]["completion_tokens"]) == (NAME, 3)


def test_a_version_without_a_file_ends_the_engine(registry: Path, llama: Path) -> None:
    assert follow(registry, write_version(registry, 1, llama.read_bytes()))
    assert follow(registry, write_version(registry, 2, None)) is None


def test_a_file_that_is_no_model_leaves_the_engine_before_answering(registry: Path, llama: Path) -> None:
    running, broken = (
        follow(registry, write_version(registry, 1, llama.read_bytes())),
        write_version(registry, 2, b"no"),
    )
    assert running
    with pytest.raises(UserError, match=r"the engine did not start: .*; its log is "):
        follow(registry, broken)
    restored = engine.find_running(str(registry), NAME)
    assert restored
    assert (restored.file, restored.url) == (running.file, running.url)


def test_an_engine_that_was_stopped_has_its_address_again(registry: Path, llama: Path) -> None:
    version, port = write_version(registry, 1, llama.read_bytes()), free_port()
    last = engine.RunningEngine(1, engine.HOST, port, "of the champion before")
    storage.write_json(str(registry / "endpoint" / NAME / "engine.json"), asdict(last))
    running = follow(registry, version)
    assert running
    assert running.port == port


def test_an_engine_whose_start_was_killed_can_be_stopped(registry: Path, llama: Path) -> None:
    version, log = write_version(registry, 1, llama.read_bytes()), registry / "endpoint" / NAME / "engine.log"
    code = f"engine.follow({str(registry)!r}, registry.Version(**{asdict(version)!r}), endpoint.PATIENCE)"
    imports = "from nightshift import registry\nfrom nightshift.local import endpoint"
    imports += "\nfrom nightshift_llm.local import engine"
    starting = subprocess.Popen([sys.executable, "-c", f"{imports}\n{code}"])
    wait_until(lambda: log.exists() and log.read_text(), "the engine loads the file")
    starting.kill()
    starting.wait()

    assert endpoint.stop(str(registry)) == [NAME]
    assert engine.find_running(str(registry), NAME) is None


def test_a_stopped_endpoint_leaves_no_engine(registry: Path, llama: Path) -> None:
    assert follow(registry, write_version(registry, 1, llama.read_bytes()))
    assert endpoint.stop(str(registry)) == [NAME]
    assert engine.find_running(str(registry), NAME) is None
    assert endpoint.stop(str(registry)) == []


def test_the_file_for_engines_is_part_of_a_models_identity(registry: Path) -> None:
    versions = [write_version(registry, number, content) for number, content in enumerate([None, b"one", b"two"])]
    assert len({version.sha256 for version in versions}) == 3
