"""Documents in rows: every token but the one that begins a document is predicted once, after what stands before it."""

from itertools import chain, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nightshift.models.neural.data import gather_array
from nightshift.models.neural.packing import PackedDataset, TargetTokens, pack

START, VOCABULARY = 0, 10
TARGETS = TargetTokens(START, VOCABULARY)
DOCUMENTS = st.lists(st.lists(st.integers(1, 9), max_size=20).map(lambda tokens: [START, *tokens]), min_size=1)


@given(DOCUMENTS, st.integers(1, 7))
def test_every_token_but_the_first_of_a_document_is_predicted_once_and_after_the_one_before_it(documents, length):
    rows = pack([np.array(document, np.int32) for document in documents], START, length)
    weights = TARGETS.weigh(torch.from_numpy(rows)).numpy()
    assert (rows.dtype, rows.shape[1], weights.shape) == (np.int32, length + 1, (len(rows), length))
    assert TARGETS.count(rows).tolist() == weights.sum(1).tolist()
    stream = [*chain(*documents)]
    before, after = rows[:, :-1][weights > 0], rows[:, 1:][weights > 0]
    expected = [pair for pair in pairwise(stream) if pair[1] != START]
    assert [*zip(before.tolist(), after.tolist(), strict=True)] == expected


@given(DOCUMENTS, st.integers(1, 7))
def test_only_the_end_of_the_last_row_is_filled_up(documents, length):
    rows = pack([np.array(document, np.int32) for document in documents], START, length)
    stream = [*chain(*documents)]
    filled = [*rows[:, :-1].ravel(), rows[-1, -1]]
    assert filled == stream + [START] * (len(filled) - len(stream))
    assert len(filled) - len(stream) < length or len(stream) == 1


def dataset(*sizes: int) -> PackedDataset:
    """Batches of two rows of documents of so many tokens, and two that are only read."""
    documents = [np.array([START, *[1] * size, VOCABULARY + 1, VOCABULARY + 1], np.int32) for size in sizes]
    rows = pack(documents, START, 4)
    counts = torch.from_numpy(TARGETS.count(rows))
    return PackedDataset(gather_array(rows, 0, torch.device("cpu")), counts, 2, TARGETS)


def test_a_batch_counts_each_of_its_targets_alike_however_few_there_are():
    batches = list(dataset(1, 2, 7, 3).epoch())
    assert sum(int((scaled > 0).sum()) for _, scaled, _ in batches) == 1 + 2 + 7 + 3
    for batch, scaled, _ in batches:
        assert batch.max() < VOCABULARY
        assert scaled.sum().item() == pytest.approx(len(batch))
        assert len(scaled[scaled > 0].unique()) == 1


def test_a_batch_without_a_token_to_predict_counts_nothing():
    ((_, scaled, _),) = dataset(0).epoch()
    assert scaled.sum().item() == 0
