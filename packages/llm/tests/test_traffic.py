"""Live prompts that have changed are seen, and those that have not raise nothing."""

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import msgspec
import numpy as np
import pytest

from nightshift.contracts.verdict import Decision, Verdict
from nightshift_llm import traffic
from nightshift_llm.gateway.request_log import RequestRecord, sketch_prompt
from pipelines.cli.__main__ import parse_command_line

WORDS = (
    "tell",
    "me",
    "what",
    "the",
    "weather",
    "in",
    "a",
    "city",
    "will",
    "be",
    "tomorrow",
    "and",
    "why",
    "it",
    "rains",
)
OTHERS = ("SELECT", "count(*)", "FROM", "orders", "JOIN", "items", "ON", "items.id", "=", "orders.item", "> 100")
Draw = Callable[[np.random.Generator], RequestRecord]


def ask(random: np.random.Generator, words: Sequence[str] = WORDS, **fields: object) -> RequestRecord:
    text = " ".join(random.choice(words, max(3, int(random.normal(40, 8))))).encode()
    sizes = {"prompt_bytes": len(text), "prompt_tokens": len(text) // 4, "completion_tokens": int(random.integers(90))}
    return msgspec.structs.replace(RequestRecord(0.0, 200, sketch=sketch_prompt(text), **sizes), **fields)


def day(seed: int, change: Draw = ask, count: int = 400) -> list[RequestRecord]:
    random = np.random.default_rng(seed)
    return [change(random) for _ in range(count)]


def raised(newest: list[RequestRecord]) -> tuple[Decision, set[str]]:
    verdict = traffic.compare_requests(day(0), newest, "day")
    return verdict.decision, {measure.name for measure in verdict.measures if traffic.is_raised(measure)}


@pytest.mark.parametrize("seed", range(1, 6))
def test_requests_like_those_before_raise_nothing(seed: int) -> None:
    assert raised(day(seed)) == (Decision.PASS, set())


@pytest.mark.parametrize("share", [0.3, 0.8, 1.0])
def test_requests_whose_tokens_no_engine_has_counted_move_no_tokens(share: float) -> None:
    def ask_uncounted(random: np.random.Generator) -> RequestRecord:
        uncounted = {"prompt_tokens": 0, "completion_tokens": 0} if random.random() < share else {}
        return ask(random, **uncounted)

    assert raised(day(1, ask_uncounted)) == (Decision.PASS, set())


def test_prompts_about_something_else_are_seen_though_their_lengths_are_the_same() -> None:
    decision, names = raised(day(1, lambda random: ask(random, OTHERS if random.random() < 0.4 else WORDS)))
    assert decision is Decision.FAIL
    assert {"novelty", "domain_classifier", "mmd"} <= names


def test_longer_answers_are_seen_and_the_prompts_are_not_blamed() -> None:
    newest = day(1, lambda random: ask(random, completion_tokens=int(random.integers(90, 200))))
    assert raised(newest) == (Decision.FAIL, {"psi_completion_tokens", "wasserstein_completion_tokens"})


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("errors", {"status": 502, "code": "replica_failed"}),
        ("refused", {"status": 429, "code": "rate_limit_exceeded"}),
        ("interrupted", {"code": "interrupted"}),
        ("declined", {"is_declined": True}),
    ],
)
def test_more_bad_ends_than_before_are_seen_by_their_kind(name: str, fields: dict[str, object]) -> None:
    newest = day(1, lambda random: ask(random, **(fields if random.random() < 0.1 else {})))
    assert raised(newest) == (Decision.FAIL, {name})


def test_few_requests_decide_nothing() -> None:
    verdict = traffic.compare_requests(day(0), day(1, count=99), "day")
    assert verdict.decision is Decision.UNDECIDED
    assert verdict.reasons == ["99 answers, and 400 before; at least 100 of each are needed to decide."]


def write(folder: Path, name: str, records: list[RequestRecord]) -> None:
    (folder / f"{name}.jsonl").write_bytes(msgspec.json.Encoder().encode_lines(records))


def test_a_day_is_compared_with_those_before_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        write(tmp_path, f"2026-03-0{number + 1}", day(number, count=150))
    write(tmp_path, "2026-03-04", day(9, lambda random: ask(random, OTHERS)))
    verdict = traffic.compare_days(str(tmp_path), date(2026, 3, 3), 2)
    assert (verdict.gate, verdict.decision, verdict.subject) == ("live_prompts", Decision.PASS, "2026-03-03")
    args = parse_command_line(["llm", "drift", str(tmp_path), "--date", "2026-03-04", "--json"])
    assert args.command(args) == 2
    printed = Verdict.model_validate_json(capsys.readouterr().out)
    assert printed.decision is Decision.FAIL
    assert "domain classifier is " in " ".join(printed.reasons)
