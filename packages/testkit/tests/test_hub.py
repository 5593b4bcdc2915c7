"""The stand-in of the Hugging Face Hub, as its real client uses it."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from nightshift_testkit import hub
from nightshift_testkit.hub import TOKEN, HubServer

# the client's own upload by LFS
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

NAME = "acme/fraud"
README = b"---\ntags: [nightshift]\n---\n# Fraud\n"


@pytest.fixture
def server() -> Iterator[HubServer]:
    with hub.serve() as server:
        yield server


@pytest.fixture
def api(server: HubServer) -> HfApi:
    return HfApi(endpoint=server.url, token=TOKEN)


def add(path: str, content: bytes) -> CommitOperationAdd:
    """An addition by the HTTP API: without a buffered reader the client uses Xet where it is installed."""
    return CommitOperationAdd(path, io.BufferedReader(io.BytesIO(content)))


def commit(api: HfApi, *operations: CommitOperationAdd | CommitOperationDelete) -> str:
    return api.create_commit(NAME, operations, commit_message="files").oid


def test_small_files_and_large_ones_come_back_as_they_were_committed(server, api, tmp_path):
    api.create_repo(NAME)
    at = commit(api, add("README.md", README), add("model.onnx", b"\x00weights"), add("a b/ü.json", b"{}"))
    assert server.repositories[NAME].files["model.onnx"].is_lfs
    for path, content in {"README.md": README, "model.onnx": b"\x00weights", "a b/ü.json": b"{}"}.items():
        assert Path(api.hf_hub_download(NAME, path, revision=at, cache_dir=tmp_path)).read_bytes() == content


def test_a_snapshot_holds_what_the_patterns_allow(api, tmp_path):
    api.create_repo(NAME)
    at = commit(api, add("model.safetensors", b"w"), add("model.bin", b"pickle"))
    folder = Path(api.snapshot_download(NAME, revision=at, cache_dir=tmp_path, allow_patterns=["*.safetensors"]))
    assert [path.name for path in folder.iterdir()] == ["model.safetensors"]


def test_files_that_are_there_already_make_no_commit_and_deleted_ones_are_gone(server, api):
    api.create_repo(NAME)
    first = commit(api, add("model.onnx", b"w"), add("config.json", b"{}"))
    assert commit(api, add("model.onnx", b"w"), add("config.json", b"{}")) == first
    commit(api, CommitOperationDelete("config.json"))
    assert set(api.list_repo_files(NAME)) == {".gitattributes", "model.onnx"}
    assert [entry.path for entry in api.get_paths_info(NAME, ["config.json"], revision=first)] == ["config.json"]


def test_a_tag_names_a_commit_once(api):
    api.create_repo(NAME)
    first = commit(api, add("model.onnx", b"1"))
    api.create_tag(NAME, tag="v1", revision=first)
    commit(api, add("model.onnx", b"2"))
    assert {tag.name: tag.target_commit for tag in api.list_repo_refs(NAME).tags} == {"v1": first}
    assert api.model_info(NAME, revision="v1").sha == first
    with pytest.raises(HfHubHTTPError, match="already exists"):
        api.create_tag(NAME, tag="v1", revision="main")


def test_a_private_repository_is_none_without_the_token(server, api):
    api.create_repo(NAME, private=True)
    assert api.model_info(NAME).private
    with pytest.raises(RepositoryNotFoundError):
        HfApi(endpoint=server.url, token=False).model_info(NAME)


def test_who_has_no_token_changes_nothing(server, api):
    server.publish(NAME, {"config.json": b"{}"})
    stranger = HfApi(endpoint=server.url, token=False)
    with pytest.raises(HfHubHTTPError):
        stranger.create_commit(NAME, [add("config.json", b"[]")], commit_message="mine")
    with pytest.raises(HfHubHTTPError):
        stranger.create_repo("acme/other")
    assert server.repositories[NAME].files["config.json"].content == b"{}"


def test_what_is_not_there_has_the_errors_of_the_hub(server, api, tmp_path):
    at = server.publish(NAME, {"config.json": b"{}"})
    with pytest.raises(EntryNotFoundError):
        api.hf_hub_download(NAME, "other.json", revision=at, cache_dir=tmp_path)
    with pytest.raises(RevisionNotFoundError):
        api.model_info(NAME, revision="0" * 40)
    with pytest.raises(RepositoryNotFoundError):
        api.model_info("acme/other")


def test_a_failure_is_answered_once(server, api):
    server.publish(NAME, {"config.json": b"{}"})
    server.failures = [500]
    with pytest.raises(HfHubHTTPError):
        api.model_info(NAME)
    assert api.model_info(NAME).id == NAME
