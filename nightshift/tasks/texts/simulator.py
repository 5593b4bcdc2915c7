"""Texts to begin with: made-up words by topic and author, by day.

As in `simulator.py`, any day can be made alone and equals that day of any longer run.
"""

from datetime import date
from functools import lru_cache

import numpy as np
import pandas as pd

from nightshift.config.texts import TextSimulator
from nightshift.tasks.base import ingestion as base

# the purpose of a stream of random numbers
WRITTEN, WORDS, CORRUPTION = range(3)
DAY = 86_400  # seconds
IDS_A_DAY = 10**9  # more rows than any day has, so that ids differ between days
TOPICS = ("finance", "health", "sports", "travel")
UNSEEN = "weather"
NAMES = (*TOPICS, UNSEEN)  # in the order of their words
AUTHORS = 50
COMMON, TOPICAL, OWN = 400, 60, 5  # words of everybody, of a topic, of an author
SHARES = (0.6, 0.3, 0.1)  # of these in a text
LEAST = 3  # words of a text
SYLLABLES = ("ba", "de", "fi", "go", "hu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "zu")


class SimulationTask(base.SimulationTask):
    """Texts of invented words, a class each or any number."""

    columns = ("text_id", "time", "text", "author", "label")

    def day(self, config: TextSimulator, on: date, labels_due: date | None = None) -> pd.DataFrame:
        random, drifts = _rng(config, WRITTEN, on.toordinal()), config.drifts(on)
        count = max(1, round(config.items * (config.volume_factor if drifts else 1.0)))
        topics = _draw_topics(config, random, count, drifts)
        authors = random.integers(0, AUTHORS, count)
        mean = max(0, config.words - LEAST) * (config.length_factor if drifts else 1.0)
        lengths = LEAST + random.poisson(mean, count)
        new = config.new_words if drifts else 0.0
        rows = zip(topics, authors, lengths, strict=True)
        frame = pd.DataFrame(
            {
                "text_id": on.toordinal() * IDS_A_DAY + np.arange(count),
                "time": np.datetime64(on, "us") + np.sort(random.integers(0, DAY, count)).astype("timedelta64[s]"),
                "text": pd.Series([_text(config.seed, random, row, new) for row in rows], dtype=object),
                "author": [f"author {author}" for author in authors],
                "label": pd.Series([names if config.label_share else names[0] for names in topics], dtype=object),
            }
        )
        if labels_due is not None and not config.labels_arrived(on, labels_due):
            frame["label"] = pd.Series([None] * count, dtype=object)
        return _corrupt(frame, config, on) if config.corrupt_share else frame


def _rng(config: TextSimulator, stream: int, ordinal: int) -> np.random.Generator:
    return np.random.default_rng([config.seed, stream, ordinal])


def _draw_topics(config: TextSimulator, random: np.random.Generator, count: int, drifts: bool) -> list[list[str]]:
    """Return the topics of texts; one each, or any number."""
    new = config.new_class if drifts else 0.0
    if config.label_share:
        limits = [*[config.label_share] * len(TOPICS), new]
        flags = random.random((count, len(limits))) < limits
        return [[name for name, is_one in zip(NAMES, row, strict=True) if is_one] for row in flags]
    topics = random.integers(0, len(TOPICS), count)
    if drifts:
        topics[random.random(count) < new] = len(TOPICS)
    return [[NAMES[topic]] for topic in topics]


def _text(seed: int, random: np.random.Generator, row: tuple[list[str], int, int], new: float) -> str:
    """Write a text of some topics by an author, of so many words; some of them are new."""
    topics, author, length = row
    common, topical, own, unknown = _vocabulary(seed)
    chosen = random.choice(3, length, p=SHARES)
    # words are as unequal as those of a language: the first ones come most often
    ranks = random.random(length) ** 2
    # in turns, since the first words come most often
    of_topics = [word for words in zip(*(topical[NAMES.index(name)] for name in topics), strict=True) for word in words]
    pools = (common, of_topics or common, own[author])
    words = [pools[pool][int(rank * len(pools[pool]))] for pool, rank in zip(chosen, ranks, strict=True)]
    fresh = random.random(length) < new
    replaced = random.integers(0, len(unknown), length)
    return " ".join(unknown[other] if is_new else word
                    for word, is_new, other in zip(words, fresh, replaced, strict=True))  # fmt: skip


Vocabulary = tuple[list[str], list[list[str]], list[list[str]], list[str]]


@lru_cache(maxsize=4)
def _vocabulary(seed: int) -> Vocabulary:
    """Return the words of everybody, of each topic, of each author, and those that nobody has used yet."""
    sizes = [COMMON, *[TOPICAL] * (len(TOPICS) + 1), *[OWN] * AUTHORS, COMMON]
    random = np.random.default_rng([seed, WORDS])
    words: list[str] = []
    while len(words) < sum(sizes):
        word = "".join(random.choice(SYLLABLES, random.integers(2, 5)))
        words += [word] if word not in words else []
    ends = np.cumsum(sizes)
    pools = [words[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    first_author = len(TOPICS) + 2
    return pools[0], pools[1:first_author], pools[first_author:-1], pools[-1]


def _corrupt(frame: pd.DataFrame, config: TextSimulator, on: date) -> pd.DataFrame:
    """Spoil a share of the rows, each in one of the ways that ingestion quarantines, in turn."""
    rng = _rng(config, CORRUPTION, on.toordinal())
    rows = rng.choice(len(frame), round(config.corrupt_share * len(frame)), replace=False)
    sound = np.setdiff1d(frame.index, rows)
    frame = frame.astype({"time": str})
    spoiled = (
        ("time", "yesterday"),
        ("label", "no such class"),
        ("text", " \n"),
        ("text", b"\xff\xfe text"),
        ("text", "text\0"),
        ("text", frame["text"].iloc[sound[0] if len(sound) else 0]),
    )
    for turn, (column, value) in enumerate(spoiled):
        for row in rows[turn :: len(spoiled)]:
            frame.loc[row, column] = value
    return frame
