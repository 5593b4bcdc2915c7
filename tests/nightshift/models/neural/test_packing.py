"""Documents in rows: every token but the one that begins a document is predicted once, after what stands before it."""

from itertools import chain, pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from nightshift.models.neural.packing import PackedDataset, pack

START = 0
DOCUMENTS = st.lists(st.lists(st.integers(1, 9), max_size=20).map(lambda tokens: [START, *tokens]), min_size=1)


@given(DOCUMENTS, st.integers(1, 7))
def test_every_token_but_the_first_of_a_document_is_predicted_once_and_after_the_one_before_it(documents, length):
    rows, weights = pack([np.array(document, np.int32) for document in documents], START, length)
    assert (rows.dtype, rows.shape[1], weights.shape) == (np.int32, length + 1, (len(rows), length))
    stream = [*chain(*documents)]
    before, after = rows[:, :-1][weights > 0], rows[:, 1:][weights > 0]
    expected = [pair for pair in pairwise(stream) if pair[1] != START]
    assert [*zip(before.tolist(), after.tolist(), strict=True)] == expected


@given(DOCUMENTS, st.integers(1, 7))
def test_only_the_end_of_the_last_row_is_filled_up(documents, length):
    rows, weights = pack([np.array(document, np.int32) for document in documents], START, length)
    stream = [*chain(*documents)]
    filled = [*rows[:, :-1].ravel(), rows[-1, -1]]
    assert filled == stream + [START] * (len(filled) - len(stream))
    assert len(filled) - len(stream) < length or len(stream) == 1
    assert set(weights.ravel().tolist()) <= {0.0, 1.0}


def test_a_batch_counts_each_of_its_tokens_alike_however_few_there_are():
    rows, weights = pack([np.array([START, *[1] * tokens], np.int32) for tokens in (1, 2, 7, 3)], START, 4)
    dataset = PackedDataset(torch.from_numpy(rows), torch.from_numpy(weights), 2)
    for batch, scaled in dataset.epoch():
        counted = batch[:, 1:] != START
        assert scaled.sum().item() == len(batch)
        assert torch.equal(scaled > 0, counted)
        assert len(scaled[counted].unique()) == 1


def test_a_batch_without_a_token_to_predict_counts_nothing():
    rows, weights = pack([np.array([START], np.int32)], START, 4)
    ((_, scaled),) = PackedDataset(torch.from_numpy(rows), torch.from_numpy(weights), 2).epoch()
    assert scaled.sum().item() == 0
