"""Answers in which a model declines, and others."""

import json

import pytest

from nightshift_llm.gateway.answers import AnswerOpening

DECLINED = [
    "I'm sorry, but I can't assist with that.",
    "I cannot help with that request.",
    "I\u2019m not able to provide that.",
    "As an AI language model, I am unable to answer.",
    "Unfortunately, I cannot share it.",
    "I won't be able to help with this.",
    "Sorry, I can't do that.",
]
ANSWERED = [
    "I can't wait to tell you!",
    "The king said: I cannot help you.",
    "I am happy to help.",
    "Sorry is what he said first.",
    "",
]


def open_answer(*events: dict[str, object]) -> AnswerOpening:
    opening = AnswerOpening()
    for event in events:
        opening.add(json.dumps(event).encode())
    return opening


@pytest.mark.parametrize("text", [*DECLINED, *ANSWERED])
def test_an_answer_that_declines_is_told_by_how_it_begins_whole_or_in_pieces(text: str) -> None:
    whole = open_answer({"choices": [{"message": {"role": "assistant", "content": text}}]})
    pieces = open_answer(*({"choices": [{"delta": {"content": character}}]} for character in text))
    plain = open_answer({"choices": [{"text": text, "index": 0}]})
    assert [opening.is_declined for opening in (whole, pieces, plain)] == [text in DECLINED] * 3


def test_what_the_engine_calls_a_refusal_is_one() -> None:
    assert open_answer({"choices": [{"message": {"content": None, "refusal": "No."}}]}).is_declined
    assert open_answer({"choices": [{"text": "A story", "finish_reason": "content_filter"}]}).is_declined


def test_other_events_and_what_comes_later_change_nothing() -> None:
    opening = open_answer({"choices": [{"text": "x" * 200}]}, {"choices": [{"text": DECLINED[0]}]})
    opening.add(b"[DONE]")
    opening.add(b'{"choices": "none"}')
    assert not opening.is_declined
