"""The command that pushes a version to the Hub."""

from collections.abc import Iterator

import pytest
from huggingface_hub import ModelCard

from nightshift import registry
from nightshift.runtime.errors import UserError
from nightshift_testkit import hub
from nightshift_testkit.hub import TOKEN, HubServer
from pipelines.cli.__main__ import parse_command_line

# the client's own upload by LFS
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with hub.serve() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server


def push(*words: str) -> int:
    args = parse_command_line(["push", *words])
    code: int = args.command(args)
    return code


def test_a_version_is_pushed_once_with_its_card_under_the_hubs_metadata(server, stocked, save_model, tmp_path, capsys):
    tags = {"promise": "average_precision", "average_precision": "0.61"}
    registry.register(stocked, "fraud", save_model(0.7), tags, card="# Fraud\n\nOf *cards*.\n")
    for verb in ("holds", "already holds"):
        assert push("4", "hf://acme/fraud", "--workspace", str(tmp_path)) == 0
        assert capsys.readouterr().out == f"hf://acme/fraud@v4 {verb} version 4 of fraud\n"
    card = ModelCard(server.repositories["acme/fraud"].files["README.md"].content.decode())
    assert card.text.strip() == "# Fraud\n\nOf *cards*."
    assert (card.data.pipeline_tag, card.data.tags) == ("tabular-classification", ["nightshift", "tabular"])
    [result] = card.data.eval_results
    assert (result.metric_type, result.metric_value) == ("average_precision", 0.61)


def test_a_version_without_a_card_has_a_title(server, stocked, tmp_path):
    push("2", "hf://acme/fraud", "--workspace", str(tmp_path))
    assert b"# fraud, version 2" in server.repositories["acme/fraud"].files["README.md"].content


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["9", "hf://acme/fraud"], r"no version 9; existing versions: 1, 2, 3"),
        (["1", "acme/fraud"], r"repository: is 'acme/fraud'; write hf://organization/name"),
        (["1", "hf://acme/fraud@v1"], r"repository: 'hf://acme/fraud@v1' names a revision"),
    ],
)
def test_what_cannot_be_pushed_is_refused_before_anything_is_asked(server, stocked, tmp_path, words, why):
    with pytest.raises(UserError, match=why):
        push(*words, "--workspace", str(tmp_path))
    assert server.requests == []
