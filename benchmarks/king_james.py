"""Small Llamas on the King James Bible, beside a Kneser-Ney model and compressors: bits a character of unseen books.

    python -m benchmarks.king_james [compressors] [ngrams] [llamas] [--depths 2 4] [--minutes 5 20] [--threads 2]

The text comes from the program `bible` of Debian's packages bible-kjv and bible-kjv-text. Every tenth book is held out.
A compressor's bits are those that the held-out books add to the others; PPMd is there if `pyppmd` is installed. A
Llama's tokens are pairs of bytes joined on the training books (BPE), and each is predicted from `LENGTH` / 2 others or
more of its chapter.
"""

import argparse
import gzip
import lzma
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import islice

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from benchmarks import figures
from benchmarks.verses import verses
from nightshift.config.neural import Trainer
from nightshift.models.neural import devices, packing, processes
from nightshift.models.neural.data import gather_resident
from nightshift.models.neural.packing import PackedDataset
from nightshift.models.neural.trainer import NetworkTraining
from nightshift_llm.recipes import llama

HELD_OUT = slice(4, None, 10)  # slice of the books, in their order
ORDER = 5
START, VOCABULARY, LENGTH = "<|endoftext|>", 2048, 256
CHAPTERS = "\n\n"  # between two
STEPS = 20  # that tell how long one takes
CPU = torch.device("cpu")


def read_chapters() -> tuple[list[str], list[str]]:
    """Return the chapters that train, and those of the books that are held out."""
    rows = verses()
    chapters = rows.groupby("chapter", sort=False)["text"].agg("\n".join)
    books = chapters.index.str.split(" ").str[0]
    held_out = np.isin(books, pd.unique(books)[HELD_OUT])
    return list(chapters[~held_out]), list(chapters[held_out])


def measure_compressors(train: str, unseen: str, _: argparse.Namespace) -> Iterator[figures.Row]:
    """What unseen books add to a compressed text."""
    compressors: dict[str, Callable[[bytes], bytes]] = {
        "gzip -9": gzip.compress,
        "xz -9e": lambda text: lzma.compress(text, preset=9 | lzma.PRESET_EXTREME),
    }
    if find_spec("pyppmd"):
        import pyppmd

        compressors["PPMd, order 16"] = lambda text: pyppmd.compress(text, max_order=16, mem_size=1 << 28)
    for name, compress in compressors.items():
        added = len(compress((train + unseen).encode())) - len(compress(train.encode()))
        yield {"model": name, "bits a character": 8 * added / len(unseen)}


def measure_ngrams(train: str, unseen: str, _: argparse.Namespace) -> Iterator[figures.Row]:
    """An interpolated Kneser-Ney model of characters (Chen & Goodman, 1999, 2.8)."""
    began = time.perf_counter()
    model = KneserNey(train, ORDER)
    nats = sum(-math.log(model.probability(unseen[max(0, i - ORDER + 1) : i], unseen[i])) for i in range(len(unseen)))
    yield {
        "model": f"Kneser-Ney, {ORDER} characters",
        "minutes": (time.perf_counter() - began) / 60,
        "bits a character": nats / math.log(2) / len(unseen),
    }


class KneserNey:
    """Probabilities of characters after others.

    Args:
        text: what it is of.
        order: characters of the longest n-gram.
    """

    def __init__(self, text: str, order: int) -> None:
        grams = Counter(text[start : start + order] for start in range(len(text) - order + 1))
        self._levels: list[tuple[dict[str, Counter[str]], float]] = []  # from no characters before to the most
        for _ in range(order):
            self._levels.insert(0, (followers(grams), discount(grams)))
            grams = Counter(gram[1:] for gram in grams)  # before how many different characters it stands
        self._size = len(set(text)) + 1  # and one for all that the text lacks

    def probability(self, before: str, after: str) -> float:
        """Return the probability of a character after others, the last of which count."""
        probability = 1 / self._size
        for width, (counts, taken_off) in enumerate(self._levels[: len(before) + 1]):
            if seen := counts.get(before[len(before) - width :]):
                left = max(seen[after] - taken_off, 0)
                probability = (left + taken_off * len(seen) * probability) / seen.total()
        return probability


def followers(grams: Counter[str]) -> dict[str, Counter[str]]:
    """Return characters before -> how often each character follows."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for gram, count in grams.items():
        counts[gram[:-1]][gram[-1]] = count
    return counts


def discount(grams: Counter[str]) -> float:
    """Return what each count gives up for characters that have not followed yet."""
    once, twice = (sum(count == times for count in grams.values()) for times in (1, 2))
    return once / (once + 2 * twice) if once else 0.5


def measure_llamas(train: str, unseen: str, arguments: argparse.Namespace) -> Iterator[figures.Row]:
    """Llamas of some depths, each trained for some minutes."""
    tokenizer = learn_tokenizer(train)
    for depth in arguments.depths:
        for minutes in arguments.minutes:
            yield measure_llama(tokenizer, (train, unseen), depth, minutes, arguments.threads)


def measure_llama(
    tokenizer: Tokenizer, texts: tuple[str, str], depth: int, minutes: float, threads: int
) -> figures.Row:
    """Train a Llama for some minutes, and return what it makes of unseen books."""
    began, start = time.perf_counter(), tokenizer.token_to_id(START)
    parameters = {"depth": depth, "epochs": 1000, "weight_decay": 0.1, "warmup": 0.02, "decay": "cosine", "clip": 1.0}
    shape = {"vocabulary": VOCABULARY, "start": start, "length": LENGTH}
    recipe = llama.build("parameters", shape, {**parameters, "threads": threads})
    chapters = [encode(tokenizer, chapter) for chapter in texts[0].split(CHAPTERS)]
    rows, targets = packing.pack(chapters, start, LENGTH), recipe.targets
    counts, gather = torch.from_numpy(targets.count(rows)), gather_resident(torch.from_numpy(rows))
    with devices.reproducible(0, threads):
        training = NetworkTraining(
            processes.replica(recipe, Trainer(), CPU), PackedDataset(gather, counts, recipe.fit.batch_size, targets)
        )
        take_steps(training, minutes * 60 - (time.perf_counter() - began))
        seconds = time.perf_counter() - began
        unseen = texts[1].split(CHAPTERS)
        nats = sum(count_nats(training, encode(tokenizer, chapter)) for chapter in unseen)
    return {
        "model": f"Llama of depth {depth}",
        "parameters": sum(weight.numel() for weight in training.replica.model.parameters()),
        "minutes": seconds / 60,
        "epochs": training.done / len(training.rows),
        "bits a character": nats / math.log(2) / sum(map(len, unseen)),
    }


def learn_tokenizer(train: str) -> Tokenizer:
    """Return pairs of bytes joined, on the training books alone."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[START], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([train], trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, text: str) -> packing.Tokens:
    """Return a chapter's tokens, after the one that begins it."""
    return np.array([tokenizer.token_to_id(START), *tokenizer.encode(text).ids], np.int32)


def take_steps(training: NetworkTraining, seconds: float) -> None:
    """Take as many steps as fit into some seconds, by how long the first ones take."""
    began, batches = time.perf_counter(), training.batches()
    training.steps = 10**6  # the rate still rises
    for batch in islice(batches, STEPS):
        training.step(batch)
    training.steps = max(STEPS, int(STEPS * seconds / (time.perf_counter() - began)))
    for batch in islice(batches, training.steps - STEPS):
        training.step(batch)


def count_nats(training: NetworkTraining, tokens: packing.Tokens) -> float:
    """Return the nats of a chapter's tokens but the first, each after half a row of others where there are as many."""
    half, nats = LENGTH // 2, 0.0
    with torch.no_grad():
        for first in range(0, max(1, len(tokens) - 1 - half), half):
            row = torch.from_numpy(tokens[None, first : first + LENGTH + 1])
            skipped = half if first else 0
            nats += float(training.replica.model(row)[0, skipped:].sum())
    return nats


MEASUREMENTS = {"compressors": measure_compressors, "ngrams": measure_ngrams, "llamas": measure_llamas}


def main() -> None:
    """Measure what is named, or everything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.king_james", description=__doc__)
    parser.add_argument("measurements", nargs="*", default=list(MEASUREMENTS), metavar="measurement")
    parser.add_argument("--depths", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--minutes", type=float, nargs="+", default=[5, 19])
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    train, unseen = (CHAPTERS.join(chapters) for chapters in read_chapters())
    rows: list[figures.Row] = []
    for name in arguments.measurements:
        for row in MEASUREMENTS[name](train, unseen, arguments):
            print(row, flush=True)
            rows.append(row)
    figures.publish("king-james", rows, f"{len(train):,} characters train, {len(unseen):,} are unseen.")


if __name__ == "__main__":
    main()
