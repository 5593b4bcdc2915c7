"""Weights and tokenizers from a stand-in of the Hub, by its real client."""

from pathlib import Path

import pytest

from nightshift.hub import snapshots
from nightshift.items import tokens
from nightshift.runtime.errors import UnavailableError, UserError

NAME = "somebody/network"
FIELD = "task.candidates.bert.parameters.pretrained"
FILES = {"config.json": b"{}", "model.safetensors": b"weights", "tokenizer.json": b"{}", "pytorch_model.bin": b"pickle"}


@pytest.fixture
def uri(server, tmp_path) -> str:
    """A commit of this test's own."""
    return f"hf://{NAME}@{server.publish(NAME, FILES | {'test_config.json': str(tmp_path).encode()})}"


def test_only_weights_tokenizers_and_settings_come_from_a_commit(uri):
    folder = Path(snapshots.download(FIELD, uri))
    assert {path.name for path in folder.iterdir()} == {*FILES, "test_config.json"} - {"pytorch_model.bin"}
    assert (folder / "model.safetensors").read_bytes() == b"weights"


def test_what_is_in_the_cache_needs_no_hub(uri, monkeypatch):
    folder = snapshots.download(FIELD, uri)
    snapshots.download.cache_clear()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert snapshots.download(FIELD, uri) == folder


@pytest.mark.parametrize("revision", ["", "@main", "@v1"])
def test_a_reference_without_a_commit_is_refused_and_says_which_one_it_is_now(server, revision):
    commit = server.publish(NAME, FILES)
    server.repositories[NAME].tags["v1"] = commit
    with pytest.raises(UserError, match=rf"pretrained: .* may be other weights tomorrow; write hf://{NAME}@{commit}"):
        snapshots.download(FIELD, f"hf://{NAME}{revision}")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_file_that_is_not_the_commits_is_refused(uri, name):
    folder = Path(snapshots.download(FIELD, uri))
    snapshots.download.cache_clear()
    (folder / name).resolve().write_bytes(b"changed")
    with pytest.raises(UserError, match=rf"{name} is not the file of its commit; delete "):
        snapshots.download(FIELD, uri)


@pytest.mark.parametrize("uri", ["hf://", "hf://network", "hf://a/b/c", "hf://a/b@", "hf://a b/c", "hf://../b"])
def test_what_is_no_name_of_a_repository_is_refused(uri):
    with pytest.raises(UserError, match=r"pretrained: is 'hf://.*'; write hf://organization/name"):
        snapshots.download(FIELD, uri)


def test_a_hub_that_is_down_may_answer_later(server, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UnavailableError, match="the Hub does not answer"):
        snapshots.download(FIELD, f"hf://{NAME}")  # of a commit the client tries it for 23 s


def test_a_repository_that_is_not_there_is_the_users_to_fix(server):
    with pytest.raises(UserError, match="the Hub refuses"):
        snapshots.download(FIELD, f"hf://{NAME}@{'2' * 40}")


def test_the_tokenizer_of_a_commit_is_its_file(uri):
    assert tokens.read_file(uri) == FILES["tokenizer.json"]
