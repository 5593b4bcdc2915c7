"""Models that tell classes of texts apart: weighted words, embeddings as they are, or a network that is fitted."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.special import expit, softmax
from sklearn.feature_extraction.text import TfidfTransformer
from torch import Tensor, nn

from nightshift.config.section import check_parameters
from nightshift.config.texts import TextTaskConfig
from nightshift.contracts import preprocessing as parts
from nightshift.contracts.package import Datatype, Signature
from nightshift.contracts.package import Tensor as Input
from nightshift.items import scorer, tokens
from nightshift.items.metrics import Labels
from nightshift.items.shards import ItemTable, count_classes, labels
from nightshift.items.tokens import Tokens
from nightshift.models.neural import devices
from nightshift.models.neural.data import KEEP, Samples, Transform
from nightshift.models.recipes.bert import Bert, BertParameters
from nightshift.tasks.classification import class_networks, linear
from nightshift.tasks.fitting import Fitted
from nightshift.tasks.items import networks
from nightshift.tasks.items.networks import FitSetup, Scores
from nightshift.tasks.texts import onnx_export as texts_export


def preprocessing(task: TextTaskConfig) -> parts.TextPreprocessing:
    """Return how texts become the graphs' input.

    Raises:
        UserError: when the tokenizer cannot be read.
    """
    tokenizer = tokens.load_tokenizer(task)
    return parts.TextPreprocessing(
        classes=task.classes,
        length=task.length,
        tokenizer=tokens.FILE if tokenizer.content else None,
        vocabulary=tokenizer.vocabulary,
        pad=tokenizer.pad,
        tokenizer_sha256=tokenizer.sha256,
    )


def signature(task: TextTaskConfig) -> Signature:
    """Return what every graph takes and gives."""
    return Signature.of_scores(Input.of_rows(Datatype.INT32, task.length), classes=len(task.classes))


def files(task: TextTaskConfig) -> Mapping[str, bytes]:
    """Return what a package holds beside its graphs."""
    content = tokens.load_tokenizer(task).content
    return {tokens.FILE: content} if content else {}


def fit(setup: FitSetup[TextTaskConfig], name: str, items: ItemTable, rows: pd.DataFrame) -> Fitted:
    """Fit one candidate of the config.

    Raises:
        UserError: when a parameter is refused, or pretrained weights cannot be had.
    """
    task = setup.task
    known = labels(rows, task.classes, task.is_multilabel)
    if task.candidates[name].kind == "tfidf":
        return _fit_tfidf(task, name, items.inputs(rows), known)
    architecture = replace(recipe(task, name), counts=count_classes(rows, task.classes, task.is_multilabel))
    if architecture.fit.frozen:
        return _frozen(setup, name, architecture, items.inputs(rows), known)
    # of a pipeline every batch has the same shape
    change = KEEP if task.trainer.pipeline > 1 else Transform(partial(_shorten, architecture.pad))
    data = class_networks.gather_dataset(setup, items, rows, architecture.fit.batch_size, change)
    training = networks.fit(setup, name, architecture, rows, data)
    model = architecture.merge(training.model)
    scores = partial(class_networks.probabilities, model, is_multilabel=task.is_multilabel)
    return Fitted(
        lambda: texts_export.transformer(model, architecture),
        scores,
        training.losses,
        training.validation_losses,
        choices=training.choices,
    )


def recipe(task: TextTaskConfig, name: str) -> Bert:
    """Return the recipe of a network among the candidates of the config.

    Raises:
        UserError: when it refuses a parameter.
    """
    field, tokenizer = networks.field(name), tokens.load_tokenizer(task)
    parameters = check_parameters(BertParameters, field, task.candidates[name].parameters)
    shape = (tokenizer.vocabulary, tokenizer.pad, task.length, len(task.classes))
    return Bert(field, *shape, parameters, is_multilabel=task.is_multilabel)


def is_network(task: TextTaskConfig, name: str) -> bool:
    """Return whether several processes train a candidate together."""
    return task.candidates[name].kind == "bert" and not recipe(task, name).fit.frozen


def _shorten(pad: int, samples: Samples, _: Tensor) -> Samples:
    return _trim(pad, samples[0]), samples[1]


def _trim(pad: int, numbers: Tensor) -> Tensor:
    """Leave out the last columns, in which no text has a token."""
    used = (numbers != pad).any(0).nonzero()
    return numbers[:, : int(used[-1]) + 1 if len(used) else 1]


def _fit_tfidf(task: TextTaskConfig, name: str, numbers: Tokens, known: Labels) -> Fitted:
    """Fit logistic regression on each text's tokens, weighted by how rare they are (TF-IDF)."""
    tokenizer = tokens.load_tokenizer(task)
    weigh = TfidfTransformer().fit(tokens.count_tokens(tokenizer, numbers))
    line = linear.fit(task, name, weigh.transform(tokens.count_tokens(tokenizer, numbers)), known)

    def predict(inputs: Tokens) -> Scores:
        logits = weigh.transform(tokens.count_tokens(tokenizer, inputs)) @ line.weights + line.bias
        scores: Scores = (expit(logits) if task.is_multilabel else softmax(logits, axis=1)).astype(np.float32)
        return scores

    return Fitted(lambda: texts_export.bag(weigh.idf_, line, tokenizer.pad, task.is_multilabel), predict)


def _frozen(setup: FitSetup[TextTaskConfig], name: str, architecture: Bert, numbers: Tokens, known: Labels) -> Fitted:
    """Fit logistic regression on the embeddings of a pretrained network."""
    task = setup.task
    with devices.reproducible(task.seed, architecture.fit.threads):
        model = architecture.model().to(setup.torch_device).eval()
        encoder, last = model
        embedded = _embeddings(encoder, numbers, architecture.pad)
    linear.fit(task, name, embedded, known).give(last)
    scores = partial(class_networks.probabilities, model, is_multilabel=task.is_multilabel)
    return Fitted(lambda: texts_export.transformer(model, architecture), scores)


def _embeddings(encoder: nn.Module, numbers: Tokens, pad: int) -> npt.NDArray[np.float32]:
    """Return embeddings of texts, (n, width): those of like length together, so that little is filled up."""
    order = np.argsort((numbers != pad).sum(1), kind="stable")
    device = next(encoder.parameters()).device
    with torch.no_grad():
        batches = torch.split(torch.from_numpy(numbers[order]), scorer.AT_ONCE)
        embedded = torch.cat([encoder(_trim(pad, batch.to(device))).cpu() for batch in batches]).numpy()
    back = np.empty_like(embedded)
    back[order] = embedded
    return back
