"""The page of a gateway's keys: its document, and how near each key is to its budget."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from nightshift_llm.gateway.keys import ApiKey
from nightshift_llm.gateway.ledger_file import LedgerRow
from nightshift_llm.pages import LEDGER, PAGE, show, summarize
from pipelines.environments import local
from pipelines.ui.app import build_app
from pipelines.workspace import Workspace

ROWS = [
    LedgerRow("search", "7", "2026-11-27", 9, 10, 10, 0, 0),
    LedgerRow("<b>chat", "7", "2026-11-28", 1, 60, 20, 5, 2 * 10**9),
    LedgerRow("<b>chat", "8", "2026-11-28", 2, 5, 0, 0, 10**9),
    LedgerRow("gone", "8", "2026-11-28", 1, 1, 0, 0, 0),
]


def test_a_key_is_shown_beside_the_nearer_of_its_limits() -> None:
    keys = {"<b>chat": ApiKey("<b>chat", "0" * 64, tokens_per_day=100, dollars_per_day=4.0)}

    spending = summarize(ROWS, keys)

    chat, gone = spending.usage[1:]
    assert (chat.tokens, chat.usd, chat.requests, chat.used) == (90, 3.0, 3, 0.9)
    assert (gone.tokens_per_day, gone.used) == (None, None)
    assert show(spending).reasons == ["<b>chat has used 90% of its budget."]


def test_the_page_comes_by_its_entry_point_and_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(LEDGER, raising=False)
    client = TestClient(build_app(Workspace(local(tmp_path))), base_url="http://127.0.0.1")

    answer = client.get(PAGE.path)

    assert (answer.status_code, LEDGER in answer.text) == (200, True)
    assert 'href="/gateway"' in client.get("/").text
