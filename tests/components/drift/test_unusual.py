"""What is shown of a day's images or texts beside how far they have moved."""

import json
from argparse import Namespace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from components.drift.__main__ import _inputs
from components.scoring import __main__ as scoring
from nightshift import storage
from nightshift.contracts import tables
from nightshift.contracts.section import Pictures, TableBlock
from nightshift.items import tokens
from nightshift.runtime.context import StepContext
from nightshift.tasks.classification import unusual
from nightshift.tasks.classification.drift import DriftTask
from nightshift.tasks.classification.unusual import SHOWN
from nightshift.tasks.images import display as images
from nightshift.tasks.texts import candidates
from nightshift.tasks.texts import display as texts
from nightshift_testkit import packages
from tests.components import pictures, topics
from tests.components.states import state

SHOW = partial(images.show, "nowhere", packages.manifest({"network": b""}))


def test_the_images_furthest_from_the_reference_come_first_and_the_nearest_are_beside_them():
    random = np.random.default_rng(0)
    reference, newest = random.normal(size=(200, 4)), random.normal(size=(40, 4))
    newest[7] += 100
    newest[9] = 0  # in the middle of the reference
    # every second image has an embedding
    rows = pd.DataFrame(
        {"event_id": [f"image {number}" for number in range(0, 80, 2)], "predicted": "cat"}, range(0, 80, 2)
    )
    pixels = random.integers(0, 256, (80, 8, 8, 1), dtype=np.uint8)
    least, most = unusual.blocks(rows, pixels, (reference, newest), SHOW)
    assert isinstance(least, Pictures)
    assert isinstance(most, Pictures)
    assert (least.pictures[0].note, least.pictures[0].caption) == ("image 14", "taken for cat")
    assert most.pictures[0].note == "image 18"
    assert len(least.pictures) == len(most.pictures) == SHOWN
    assert not {picture.note for picture in least.pictures} & {picture.note for picture in most.pictures}


def test_few_images_are_shown_as_both():
    rows = pd.DataFrame({"event_id": [1, 2], "predicted": ["cat", "dog"]})
    seen = (np.eye(30, 2), np.array([[0.0, 0.0], [5.0, 5.0]]))
    least, most = unusual.blocks(rows, np.zeros((2, 8, 8, 3), np.uint8), seen, SHOW)
    assert isinstance(least, Pictures)
    assert isinstance(most, Pictures)
    assert [picture.note for picture in least.pictures] == ["2", "1"]
    assert [picture.note for picture in most.pictures] == ["1", "2"]


def test_texts_of_hashed_words_are_named_and_not_spelled():
    rows = pd.DataFrame({"event_id": ["a"], "predicted": ["sports"]}, [1])
    model = packages.manifest({"words": b""}, preprocessing=candidates.preprocessing(topics.task()))
    block = texts.show("nowhere", model, "Unusual", rows, np.array([[1, 7, 0]], np.int32))
    assert [row.cells for row in block.rows] == [["a", "sports", tokens.HASHED]]


@pytest.mark.slow
def test_the_report_of_a_day_spells_its_texts_by_the_model_s_own_tokenizer(tmp_path):
    letters = {letter: number for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}
    library = Tokenizer(models.WordLevel({**letters, "[UNK]": 26, "[PAD]": 27}, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Split("", "isolated")])
    library.add_special_tokens(["[PAD]"])
    (tmp_path / "given.json").write_text(library.to_str())
    words = {"words": topics.CONFIG["task"]["candidates"]["words"]}
    config = topics.config(tokenizer=str(tmp_path / "given.json"), candidates=words)
    topics.prepare(tmp_path, config)
    flags = {"config": json.dumps(config), "date": pictures.DATE, "state": state(tmp_path)}
    flags |= {"features": str(tmp_path / "features.json"), "model": str(tmp_path / "model")}
    pictures.train(tmp_path, config)
    scores = str(tmp_path / "scores")
    context = StepContext(Namespace(**flags, scores=scores))
    scoring.body(context)

    least, most = DriftTask().comparison(_inputs(context)).examples()
    assert isinstance(least, TableBlock)
    assert isinstance(most, TableBlock)
    day = tables.read_table(str(tmp_path / "events.json")).partitions[-1]
    texts = storage.read_frame(day.uri).set_index("event_id")["text"]
    texts.index = texts.index.astype(str)
    for row in [*least.rows, *most.rows]:
        event, _, text = row.cells
        assert text.split() == list("".join(texts[event].split()))[:16]
    assert len(least.rows) == len(most.rows) == SHOWN
