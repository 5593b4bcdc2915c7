import pytest

from tests.infra.tables import fill, pages


def test_the_tables_made_from_sources_are_not_stale() -> None:
    stale = [path.name for path, text in pages().items() if path.read_text() != text]

    assert stale == [], "write them with: python -m tests.infra.tables"


def test_only_what_lies_between_the_marks_is_replaced() -> None:
    page = "before\n<!-- inputs -->\nold\n<!-- /inputs -->\nafter\n"

    assert fill(page, "inputs", "new\n") == "before\n<!-- inputs -->\nnew\n<!-- /inputs -->\nafter\n"


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(AssertionError, match="no <!-- inputs -->"):
        fill("text", "inputs", "new\n")
