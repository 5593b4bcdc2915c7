"""The negative log-likelihood, in bits, of held-out documents under a model.

A document's first token is given, since nothing comes before it; it is the one that begins every text, where the model
has one, and then holds no byte. A document longer than the context is read in windows, and the last token of one is the
first of the next, so that each token but the first is predicted once.
"""

from collections.abc import Iterator, Sequence
from math import log
from pathlib import Path

import numpy as np

from nightshift import storage
from nightshift.runtime.errors import UserError
from nightshift_llm import llamacpp
from nightshift_llm.contracts.likelihoods import Likelihoods
from nightshift_llm.llamacpp import ContextOptions, Floats, LoadedModel


def measure_likelihoods(model: Path, documents: Sequence[str], options: ContextOptions) -> Likelihoods:
    """Score documents with a model.

    Args:
        model: a GGUF file.
        documents: texts that the model was not trained on, none of them empty.
        options: with at least 2 tokens.

    Raises:
        UserError: when there is no document, or llama.cpp cannot load the file.
    """
    if not documents or not all(documents):
        raise UserError("documents: none, or an empty one; give a file with one text per line")
    with llamacpp.load(model, options) as loaded:
        scored = [pair for document in documents if (pair := _score(loaded, document))[1]]
    if not scored or not np.isfinite([bits for bits, _ in scored]).all():
        raise UserError(f"{model} gives no finite likelihood of the documents; it is broken, or they are too short")
    return Likelihoods(
        model_sha256=storage.digest(str(model)),
        documents_sha256=storage.fingerprint(list(documents)),
        context=options.tokens,
        bits=[bits for bits, _ in scored],
        bytes=[size for _, size in scored],
    )


def resume_likelihoods(uri: str, model: Path, documents: Sequence[str], options: ContextOptions) -> Likelihoods:
    """Return the cached result for the same file and documents, or measure and write it."""
    if storage.exists(uri):
        known = Likelihoods.read(uri)
        identity = (storage.digest(str(model)), storage.fingerprint(list(documents)), options.tokens)
        if (known.model_sha256, known.documents_sha256, known.context) == identity:
            return known
    likelihoods = measure_likelihoods(model, documents, options)
    likelihoods.write(uri)
    return likelihoods


def _score(model: LoadedModel, document: str) -> tuple[float, int]:
    """Return a document's bits and bytes, both without its first token."""
    tokens = model.tokenize(document)
    nats = sum(_nats(model.logits(window[:-1]), window[1:]) for window in _windows(tokens, model.context))
    return nats / log(2), len(document.encode()) - model.text_bytes(tokens[0])


def _windows(tokens: Sequence[int], context: int) -> Iterator[Sequence[int]]:
    """Yield windows with one token more than the context, which is predicted only."""
    for start in range(0, len(tokens) - 1, context):
        yield tokens[start : start + context + 1]


def _nats(logits: Floats, following: Sequence[int]) -> float:
    """Return the cross-entropy of logits, (n, vocabulary), and the tokens that follow, summed."""
    highest = logits.max(axis=1)
    normalizers = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1, dtype=np.float64))
    return float((normalizers - logits[np.arange(len(following)), following]).sum())
