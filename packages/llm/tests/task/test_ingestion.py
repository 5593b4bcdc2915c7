"""Texts that a model should not learn from are quarantined, each with its reason."""

import pandas as pd
import pytest

from nightshift.config import parse
from nightshift_llm.task import ingestion
from tests.components.tales import chat, config

GOOD = "It was the night shift that kept the models fresh, and nobody noticed."


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (GOOD, None),
        ("Too short.", "too_short"),
        (GOOD * 100, "too_long"),
        ("*** --- === ### *** --- === $$$ a b", "symbols"),
        ("again and again and again and " * 5, "repetitive"),
        ("हिन्दी भारत की राजभाषा है और यह विश्व में सबसे अधिक बोली जाने वाली भाषाओं में से एक है।", None),
        (" \n", "empty"),
        ("text\0 of a file", "binary"),
        (b"\xff\xfe text", "invalid_utf8"),
        (None, "empty"),
    ],
)
def test_each_rule_rejects_what_it_names(text, rule):
    reasons = ingestion.IngestionTask().faults(pd.DataFrame({"text": [text]}), parse(config(max_characters=1000)))
    assert reasons.tolist() == [rule]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (chat(("user", "What kept the models fresh?"), ("assistant", GOOD)), None),
        (chat(("user", "What kept the models fresh?")), "not_a_chat"),
        (chat(("narrator", "It was night."), ("assistant", GOOD)), "not_a_chat"),
        ('{"role": "assistant", "content": "It was the night shift."}', "not_a_chat"),
        (GOOD, "not_a_chat"),
        (chat(("user", "Well"), ("assistant", "well " * 30)), "repetitive"),
    ],
    ids=["chat", "no answer", "unknown role", "no list", "no JSON", "repetitive answer"],
)
def test_of_chats_messages_are_judged(text, rule):
    assert ingestion.IngestionTask().faults(pd.DataFrame({"text": [text]}), parse(config(chat=True))).tolist() == [rule]


def test_near_duplicates_are_found_where_the_config_asks():
    texts = pd.Series([GOOD, GOOD.upper() + "!", "Something else entirely happened on that day."])
    assert not ingestion.IngestionTask().near_duplicates(texts, parse(config())).any()
    assert ingestion.IngestionTask().near_duplicates(texts, parse(config(near_duplicates=0.8))).tolist() == [
        False,
        True,
        False,
    ]


def test_chats_that_share_a_system_prompt_are_no_near_duplicates():
    prompt = ("system", "You are the night shift of a bakery. Answer briefly, kindly and in the words of a baker.")
    questions = [("user", "When do you open on Sundays?"), ("user", "Is there any rye bread left this morning?")]
    contents = pd.Series([chat(prompt, question, ("assistant", "At six.")) for question in (*questions, questions[0])])

    repeats = ingestion.IngestionTask().near_duplicates(contents, parse(config(chat=True, near_duplicates=0.7)))

    assert repeats.tolist() == [False, False, True]
