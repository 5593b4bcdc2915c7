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


def test_weighted_words_with_parameters_of_their_own_are_measured_by_fitting_them_again():
    words = TextModel(kind="tfidf", parameters={"C": 10.0})
    task = topics.task().model_copy(update={"candidates": {"words": words}})
    labels = [task.classes[number % 4] for number in range(48)]
    rows = pd.DataFrame({"label": labels, "content": map(str, range(48))})
    texts = np.random.default_rng(0).integers(10, 512, (48, 16)).astype(np.int32)
    subject = ItemFit("words", "tfidf", FitSetup(task, "cpu"), ItemTable(rows, Shards([texts])), rows)

    watch = PhaseTimer(is_cuda=False, seconds={PhaseName.READ: 0.01, PhaseName.MATRIX: 0.01})
    profile, _ = core.measure(subject, watch, sha256(subject.fit().graph))

    assert (profile.model, profile.kind, profile.rows, profile.reproduced) == ("words", "tfidf", 48, True)
    assert profile.top_operations
