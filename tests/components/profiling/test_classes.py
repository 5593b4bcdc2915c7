"""The measurements of a model of texts whose training is repeated."""

import numpy as np
import pandas as pd

from components.profiling import core
from components.profiling.core import PhaseTimer
from nightshift.config.texts import TextModel
from nightshift.contracts.profile import PhaseName
from nightshift.items.shards import ItemTable, Shards
from nightshift.storage import sha256
from nightshift.tasks.classification.profiling import ItemFit
from nightshift.tasks.items.networks import FitSetup
from tests.components import topics


def subject_of(model: TextModel) -> ItemFit:
    """The fit of a model of 48 rows of random texts."""
    task = topics.task().model_copy(update={"candidates": {"words": model}})
    labels = [task.classes[number % 4] for number in range(48)]
    rows = pd.DataFrame({"label": labels, "content": map(str, range(48))})
    texts = np.random.default_rng(0).integers(10, 512, (48, 16)).astype(np.int32)
    return ItemFit("words", model.kind, FitSetup(task, "cpu"), ItemTable(rows, Shards([texts])), rows)


def test_a_trace_of_many_micro_batches_shows_four_of_a_step():
    parameters = {"batch_size": 32, "microbatches": 16}
    setup, *_, rows = subject_of(TextModel(kind="bert", parameters=parameters)).brief().args

    (candidate,) = setup.task.candidates.values()
    assert candidate.parameters == {"batch_size": 8, "microbatches": 4, "epochs": 1}
    assert len(rows) == 48


def test_weighted_words_with_parameters_of_their_own_are_measured_by_fitting_them_again():
    subject = subject_of(TextModel(kind="tfidf", parameters={"C": 10.0}))
    watch = PhaseTimer(is_cuda=False, seconds={PhaseName.READ: 0.01, PhaseName.MATRIX: 0.01})
    profile, _ = core.measure(subject, watch, sha256(subject.fit().graph))

    assert (profile.model, profile.kind, profile.rows, profile.reproduced) == ("words", "tfidf", 48, True)
    assert profile.top_operations
