"""Versions that are published on a stand-in of the Hub, by its real client."""

from pathlib import Path

import pytest

from nightshift.contracts import package
from nightshift.hub import publishing
from nightshift.hub.connection import HubReference
from nightshift.hub.publishing import HubVersion
from nightshift.runtime.errors import UnavailableError, UserError

# the client's own upload by LFS
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

NAME = "acme/fraud"
REFERENCE = HubReference(NAME)
PUBLISHED = {".gitattributes", "README.md", "logistic_regression.onnx", "model.json"}


def version(uri: str, number: int = 1, readme: str = "# Fraud\n") -> HubVersion:
    return HubVersion(number, uri, readme)


def test_a_version_is_a_commit_with_its_tag_and_without_the_rows_of_its_drift_sample(server, save_model):
    uri = save_model(0.5)
    assert publishing.publish(version(uri), REFERENCE, is_public=False)
    repository = server.repositories[NAME]
    assert repository.private
    assert set(repository.files) == PUBLISHED
    assert Path(uri, package.REFERENCE).exists()
    assert repository.tags == {"v1": repository.head}
    assert repository.files["logistic_regression.onnx"].content == Path(uri, "logistic_regression.onnx").read_bytes()


def test_a_version_that_is_there_is_not_published_again(server, save_model):
    uri = save_model(0.5)
    publishing.publish(version(uri), REFERENCE, is_public=False)
    commits = list(server.repositories[NAME].commits)
    assert not publishing.publish(version(uri), REFERENCE, is_public=False)
    assert list(server.repositories[NAME].commits) == commits


def test_the_next_version_takes_the_place_of_the_files_and_leaves_the_tag_before(server, save_model):
    publishing.publish(version(save_model(0.5)), REFERENCE, is_public=False)
    server.repositories[NAME].commit(
        {**server.repositories[NAME].files, "old.onnx": server.repositories[NAME].files["README.md"]}
    )
    publishing.publish(version(save_model(0.6), 2), REFERENCE, is_public=False)
    repository = server.repositories[NAME]
    assert set(repository.files) == PUBLISHED
    assert repository.tags["v2"] == repository.head != repository.tags["v1"]


@pytest.mark.parametrize("requests", range(2, 12))
def test_what_a_kill_has_left_is_completed_by_the_next_try(server, save_model, requests):
    uri = save_model(0.5)
    server.failures = [*[0] * requests, 403]
    try:
        publishing.publish(version(uri), REFERENCE, is_public=False)
    except UserError:
        server.failures = []
        publishing.publish(version(uri), REFERENCE, is_public=False)
    repository = server.repositories[NAME]
    assert (set(repository.files), repository.tags) == (PUBLISHED, {"v1": repository.head})
    assert len(repository.commits) == 2


def test_a_tag_of_another_model_is_refused_and_stays(server, save_model):
    publishing.publish(version(save_model(0.5)), REFERENCE, is_public=False)
    before = server.repositories[NAME].head
    with pytest.raises(UserError, match=r"hf://acme/fraud@v1 is another model; publish"):
        publishing.publish(version(save_model(0.6)), REFERENCE, is_public=False)
    assert server.repositories[NAME].head == before


def test_a_repository_of_something_else_is_left_alone(server, save_model):
    head = server.publish(NAME, {"train.py": b"print()"})
    server.repositories[NAME].private = True
    with pytest.raises(UserError, match=r"hf://acme/fraud holds files of something else"):
        publishing.publish(version(save_model(0.5)), REFERENCE, is_public=False)
    assert server.repositories[NAME].head == head


def test_a_public_repository_takes_only_what_may_be_public(server, save_model):
    uri = save_model(0.5)
    publishing.publish(version(uri), REFERENCE, is_public=True)
    assert not server.repositories[NAME].private
    with pytest.raises(UserError, match=r"is public already; add --public"):
        publishing.publish(version(uri, 2), REFERENCE, is_public=False)


def test_without_a_token_nothing_is_asked(server, save_model, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(UserError, match="HF_TOKEN is not set"):
        publishing.publish(version(save_model(0.5)), REFERENCE, is_public=False)
    assert server.requests == []


def test_a_token_that_may_not_write_is_the_users_to_fix(server, save_model, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    with pytest.raises(UserError, match=r"the Hub refuses \(401 .*\); check .* HF_TOKEN is of a user who may use it"):
        publishing.publish(version(save_model(0.5)), REFERENCE, is_public=False)


def test_a_hub_that_is_down_may_answer_later(server, save_model, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UnavailableError, match=r"the Hub does not answer .*; check HF_ENDPOINT"):
        publishing.publish(version(save_model(0.5)), REFERENCE, is_public=False)


def test_a_file_that_is_not_the_manifests_is_not_published(server, save_model):
    uri = save_model(0.5)
    Path(uri, "logistic_regression.onnx").write_bytes(b"something else")
    with pytest.raises(UserError, match=r"is not the file that model\.json names"):
        publishing.publish(version(uri), REFERENCE, is_public=False)
    assert server.requests == []
