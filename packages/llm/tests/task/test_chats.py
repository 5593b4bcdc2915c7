"""Of chats only what the assistant says is learned and measured, whatever it is asked."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer as Library

from nightshift.contracts import package
from nightshift.runtime.errors import UserError
from nightshift.serving.items.loader import load_schema
from nightshift.serving.items.schema import ItemError
from nightshift.tasks.items.networks import FitSetup
from nightshift_llm.task import candidates, tokens
from tests.components.tales import Night, chat, config, task

ANSWER = "the night shift kept it"
CHATS = tokens.load_tokenizer(task(chat=True))
DAY = date(2024, 3, 10)


def test_a_chat_becomes_chatml_of_which_the_assistants_words_and_their_end_are_learned():
    text = chat(("system", "Be brief."), ("user", "Who kept it?"), ("assistant", ANSWER))
    (document,) = CHATS.encode([text])
    library, learned = Library.from_buffer(CHATS.content), document[1:][document[1:] < CHATS.vocabulary]
    spelled = library.decode((document % CHATS.vocabulary).tolist(), skip_special_tokens=False)
    assert spelled == (
        "<|endoftext|><|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWho kept it?<|im_end|>\n"
        f"<|im_start|>assistant\n{ANSWER}<|im_end|>\n"
    )
    assert library.decode(learned.tolist(), skip_special_tokens=False) == f"{ANSWER}<|im_end|>"
    assert CHATS.byte_lengths[document].sum() == len(ANSWER)


def test_a_batch_counts_learned_tokens_alone():
    texts = [chat(("user", "x" * size), ("assistant", ANSWER)) for size in (3, 40)]
    rows = pd.DataFrame({"content": texts, "tokens": [document.tobytes() for document in CHATS.encode(texts)]})
    architecture = candidates.recipe(task(chat=True, length=32), "llama")
    dataset = candidates.pack(FitSetup(task(chat=True, length=32), "cpu"), architecture, rows)
    batches = list(dataset.epoch())
    assert max(batch.inputs.max() for batch in batches) < CHATS.vocabulary
    assert sum((batch.labels > 0).sum() for batch in batches) == 2 * (len(ANSWER) + 1)


def test_processes_of_a_machine_pack_once_and_train_on_the_batches_of_one_process(tmp_path: Path) -> None:
    architecture = candidates.recipe(task(length=32), "llama")
    documents = [document.tobytes() for document in CHATS.encode([chat(("user", "x" * size)) for size in (3, 400, 90)])]
    rows = pd.DataFrame({"content": ["a", "b", "c"], "tokens": documents})
    alone = candidates.pack(FitSetup(task(length=32), "cpu"), architecture, rows)
    setup = FitSetup(task(length=32), "cpu", shared=str(tmp_path))

    first = candidates.pack(setup, architecture, rows)
    second = candidates.pack(setup, architecture, rows.assign(tokens=None))  # which it does not need

    for dataset in (first, second):
        assert all(
            torch.equal(batch.inputs, expected.inputs) and torch.equal(batch.labels, expected.labels)
            for batch, expected in zip(dataset.epoch(), alone.epoch(), strict=True)
        )


def test_a_tokenizer_without_marks_of_messages_is_refused(tmp_path):
    path, marks = tmp_path / "tokenizer.json", tokens.build_bytes_tokenizer("<|endoftext|>").decode()
    path.write_text(marks.replace("<|im_end|>", "<|stop|>"))
    assert tokens.load_tokenizer(task(tokenizer=str(path)))
    with pytest.raises(UserError, match=r"task\.chat: .* lacks '<\|im_end\|>'"):
        tokens.load_tokenizer(task(tokenizer=str(path), chat=True))


@pytest.mark.slow
@pytest.mark.xdist_group("language")
def test_answers_that_are_always_the_same_cost_little_whatever_is_asked(tmp_path: Path) -> None:
    random, data = np.random.default_rng(0), tmp_path / "data"
    data.mkdir()
    for day in (DAY - timedelta(days=days) for days in range(8)):
        questions = ["".join(random.choice([*"abcdefgh"], 30)) for _ in range(24)]
        texts = [chat(("user", question), ("assistant", ANSWER)) for question in questions]
        ids, times = [f"{day} {number}" for number in range(24)], [f"{day}T12:00:00Z"] * 24
        frame = pd.DataFrame({"text_id": ids, "time": times, "text": texts, "source": "made up"})
        frame.to_parquet(data / f"{day}.parquet")
    use_case = config(chat=True, length=128)
    use_case["task"]["candidates"]["llama"]["parameters"] |= {"epochs": 8, "learning_rate": 0.01}
    night = Night(tmp_path, str(DAY), use_case, str(data))
    night.run("ingestion", "features", "training")
    uri = str(night.folder / "model")
    model = package.load(uri)
    assert model.candidates["llama"].validation["bits_per_byte"] < 1
    (field,) = load_schema(model, uri).fields
    assert field.decode(chat(("user", "Who?"), ("assistant", ANSWER)).encode()).shape == (129,)
    with pytest.raises(ItemError, match="not_a_chat"):
        field.decode(b"Who kept it?")
