"""A model of texts, as every server of them takes it."""

from pathlib import Path

import numpy as np
import pandas as pd
from tokenizers import Tokenizer, models, pre_tokenizers

from nightshift.contracts import package
from nightshift.contracts.package import DecisionRule
from nightshift.items import tokens
from nightshift.tasks.texts import candidates as texts
from nightshift.tasks.texts.onnx_export import Line, bag
from nightshift_testkit import packages
from tests.components import topics

WORDS = {"[PAD]": 0, "[UNK]": 1, "night": 2, "shift": 3}
TEXTS = ["Night shift", "goal 🙂 שלום", "x" * 5000]


def saved(folder: Path, **task: str) -> str:
    """Save a linear classifier of hashed words, or of a tokenizer's, and return its URI."""
    topic_task = topics.task(**task)
    seen, files = texts.preprocessing(topic_task), dict(texts.files(topic_task))
    random = np.random.default_rng(0)
    line = Line(random.normal(size=(seen.vocabulary, 4)), random.normal(size=4))
    graphs = {"words": bag(np.ones(seen.vocabulary), line, seen.pad)}
    manifest = packages.manifest(
        graphs, signature=texts.signature(topic_task), preprocessing=seen, decision=DecisionRule(threshold=None)
    )
    package.save(str(folder), manifest, graphs, pd.DataFrame(), files.items())
    return str(folder)


def with_tokenizer(folder: Path) -> str:
    """Save a classifier of the words of `WORDS`, and return its URI."""
    library = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    folder.mkdir(exist_ok=True)
    path = folder / "given.json"
    path.write_text(library.to_str())
    return saved(folder, tokenizer=str(path))


def inputs(uri: str, *contents: str) -> np.ndarray:
    """As the features step makes them."""
    task = package.load(uri).classes
    content = Path(uri, task.tokenizer).read_bytes() if task.tokenizer else b""
    return tokens.encode_texts(tokens.Tokenizer(content, task.vocabulary, task.pad), task.length, contents)
