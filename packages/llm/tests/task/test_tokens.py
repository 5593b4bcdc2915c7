"""Tokens of bytes: they stand for all of a text, and nothing in a text is taken for a mark."""

import json
from datetime import date

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import models

from nightshift.contracts import tables
from nightshift.runtime.errors import UserError
from nightshift_llm.task import tokens
from nightshift_llm.task.__main__ import main
from nightshift_llm.task.tokens import ByteTokenizer, load_tokenizer
from tests.components.tales import task

MARK = "<|endoftext|>"
TEXTS = ["a night shift", "night by night, שלום 🙂", f"{MARK} is a text here", " \tspaces\n"]
BYTES = load_tokenizer(task())


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> ByteTokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    path.write_bytes(tokens.train_tokenizer(TEXTS * 20, 300, MARK))
    return load_tokenizer(task(tokenizer=str(path)))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_token_is_a_byte_without_a_tokenizers_file(text):
    (document,) = BYTES.encode([text])
    assert (document.dtype, document[0], BYTES.vocabulary) == (np.int32, BYTES.start, 259)
    assert len(document) - 1 == BYTES.byte_lengths[document].sum() == len(text.encode())
    assert Library.from_buffer(BYTES.content).decode(document.tolist()[1:]) == text


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_of_several_bytes_stand_for_all_bytes_of_a_text_and_begin_once(text, trained):
    (document,) = trained.encode([text])
    assert trained.byte_lengths[document].sum() == len(text.encode())
    assert np.flatnonzero(document == trained.start).tolist() == [0]


def test_a_trained_tokenizer_takes_fewer_tokens(trained):
    fewer, bytes_ = trained.encode(TEXTS[:1])[0], BYTES.encode(TEXTS[:1])[0]
    assert len(fewer) < len(bytes_) / 2


def test_what_is_no_tokenizer_of_bytes_or_lacks_the_mark_is_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    words = Library(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    for content, reason in [(b"{}", "cannot be read"), (words.to_str().encode(), "its decoder is not ByteLevel")]:
        path.write_bytes(content)
        with pytest.raises(UserError, match=reason):
            load_tokenizer(task(tokenizer=str(path)))
    path.write_bytes(tokens.build_bytes_tokenizer("<s>"))
    with pytest.raises(UserError, match=r"task\.start: is '<\|endoftext\|>'.* allowed: \['<s>', "):
        load_tokenizer(task(tokenizer=str(path)))
    assert json.loads(path.read_text())["added_tokens"][0]["content"] == "<s>"


def test_a_tokenizer_is_learned_from_ingested_texts(tmp_path, capsys):
    uri, day = str(tmp_path / "2024-03-10.parquet"), date(2024, 3, 10)
    part = tables.write_partition(uri, day, pd.DataFrame({"text": TEXTS * 20}), {})
    tables.write_table(str(tmp_path / "events.json"), tables.Table("events", [part]))
    path = tmp_path / "tokenizer.json"
    flags = ["--events", str(tmp_path / "events.json"), "--tokenizer", str(path)]
    assert main([*flags, "--vocabulary", "300"]) == 0
    assert load_tokenizer(task(tokenizer=str(path))).vocabulary == 300
    assert main([*flags, "--vocabulary", "256"]) == 2
    assert capsys.readouterr().err.startswith("--vocabulary: is 256; ")


def write(path, **changed):
    """A file of a tokenizer of bytes, with some of its parts replaced."""
    path.write_text(json.dumps(json.loads(BYTES.content) | changed))
    return str(path)


@pytest.mark.parametrize(
    "changed",
    [
        {"normalizer": {"type": "Lowercase"}},
        {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}},
        {"pre_tokenizer": None},
    ],
)
def test_a_tokenizer_that_loses_or_adds_bytes_is_refused(tmp_path, changed):
    with pytest.raises(UserError, match="loses or adds bytes of"):
        load_tokenizer(task(tokenizer=write(tmp_path / "tokenizer.json", **changed)))


@pytest.mark.parametrize("start", ["a", "<|im_start|>"])
def test_the_token_that_begins_a_text_is_in_no_text(start):
    with pytest.raises(UserError, match="which texts or messages contain too"):
        load_tokenizer(task(start=start))
