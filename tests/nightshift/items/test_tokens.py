"""Numbers of tokens: of hashed words, and by a tokenizer's file."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from nightshift.items import tokens
from nightshift.runtime.errors import UserError
from tests.components.topics import task

HASHED = tokens.Tokenizer(b"", 512, tokens.PAD)


def encoded(*texts: str, length: int = 8) -> list[list[int]]:
    return tokens.encode_texts(HASHED, length, texts).tolist()


def file(words: list[str], **padding) -> bytes:
    library = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    if padding:
        library.enable_padding(**padding)
    return library.to_str().encode()


def test_the_same_word_gets_the_same_number_whatever_its_case_accents_and_place():
    (first, *words), (_, upper, *_) = encoded("été comme ete", "ETE")
    assert first == tokens.START
    assert words[0] == words[2] == upper != words[1]
    assert all(number > tokens.START for number in words[:3])
    assert words[3:] == [tokens.PAD] * 4


def test_a_long_text_is_cut_and_one_without_words_has_its_start_alone():
    many = " ".join(f"word{number}" for number in range(100))
    numbers = tokens.encode_texts(HASHED, 8, [many, "\u200b", "🙂 שלום"])
    assert numbers.dtype == np.int32
    assert (numbers[0] != tokens.PAD).all()
    assert numbers[1].tolist() == [tokens.START] + [tokens.PAD] * 7
    assert (numbers[2] != tokens.PAD).sum() == 3
    assert numbers.max() < 512


def test_a_tokenizer_s_file_gives_its_own_numbers_and_its_own_filling(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(file(["[UNK]", "night", "shift", "[PAD]"]))
    tokenizer = tokens.load_tokenizer(task(tokenizer=str(path)))
    assert (tokenizer.vocabulary, tokenizer.pad) == (4, 3)
    assert tokens.encode_texts(tokenizer, 4, ["night shift", "day " * 9]).tolist() == [[1, 2, 3, 3], [0, 0, 0, 0]]
    path.write_bytes(file(["[UNK]", "night", "<fill>"], pad_id=2, pad_token="<fill>"))
    assert tokens.load_tokenizer(task(tokenizer=str(path))).pad == 2


@pytest.mark.parametrize(
    ("content", "why"), [(None, "does not exist"), (b"{}", "cannot be read"), (file(["[UNK]"]), "no padding")]
)
def test_a_tokenizer_that_cannot_be_read_is_named(tmp_path, content, why):
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=rf"task.tokenizer: .*{why}"):
        tokens.load_tokenizer(task(tokenizer=str(path)))


def test_a_tokenizer_is_read_again_as_before_after_it_was_used():
    content = file(["[UNK]", "night", "<fill>"], pad_id=2, pad_token="<fill>")
    before = tokens.read(content)
    tokens.encode_texts(before, 4, ["night"])
    assert tokens.read(content) == before


def test_what_decides_the_numbers_is_part_of_the_key():
    other = tokens.Tokenizer(file(["[UNK]", "[PAD]"]), 512, 0)
    assert len({str(tokenizer.key) for tokenizer in (HASHED, other, tokens.Tokenizer(b"", 1024, 0))}) == 3
