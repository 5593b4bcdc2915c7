"""What is fitted to pairs: the graphs say what the models do, and reports in the same words are one report."""

from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from nightshift.items.labels import encode
from nightshift.items.shards import ItemTable, Shards
from nightshift.models.graph import Graph
from nightshift.tasks.items.networks import TOLERANCE, FitSetup
from nightshift_image_text.task import candidates
from nightshift_image_text.task.measuring import answer
from nightshift_image_text.task.views import view
from tests.components.scans import task

REPORTS = ["Nodule of 4 mm.", "Nodule of 4 mm.", "Small effusion.", "", "Nodule and effusion."]
LABELS = [["nodule"], ["nodule"], ["effusion"], [], ["effusion", "nodule"]]


def draw(seed: int) -> bytes:
    buffer = BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (40, 40), dtype=np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def items() -> ItemTable:
    """Sixty pairs, of which five and five have the same reports."""
    count = 60
    pairs = view(task()).see([draw(seed) for seed in range(count)], [REPORTS[n % 5] for n in range(count)])
    rows = pd.DataFrame(
        {
            "event_id": range(count),
            "group": [f"p{n // 2}" for n in range(count)],
            "label": [encode(LABELS[n % 5]) for n in range(count)],
            "content": [str(n) for n in range(count)],
        }
    )
    return ItemTable(rows, Shards([pairs]))


@pytest.mark.parametrize("name", ["frozen_text", "pairs"])
def test_a_graph_gives_what_its_model_does_with_embeddings_of_unit_length(name: str, items: ItemTable) -> None:
    fitted = candidates.fit(FitSetup(task(), "cpu"), name, items, items.rows)
    pairs = items.inputs(items.rows)
    answers = answer(Graph(fitted.graph), pairs)
    lengths = [np.linalg.norm(vectors, axis=1) for vectors in answers.embeddings]

    assert np.abs(answers.stacked - fitted.predict(pairs)).max() < TOLERANCE
    assert ((answers.scores >= 0) & (answers.scores <= 1)).all()
    # a report without a word has no direction in a baseline that sums words
    assert np.allclose(np.concatenate(lengths)[np.concatenate(lengths) > 0.5], 1, atol=1e-4)


def test_a_graph_takes_no_rows_too(items: ItemTable) -> None:
    fitted = candidates.fit(FitSetup(task(), "cpu"), "frozen_text", items, items.rows)

    assert answer(Graph(fitted.graph), items.inputs(items.rows.iloc[:0])).scores.shape == (0, 4)


def test_reports_in_the_same_words_and_images_of_a_patient_have_one_number(items: ItemTable) -> None:
    known = candidates.label_pairs(task(), items, items.rows)
    reports, groups = known[:, 0], known[:, 1]

    assert reports[0] == reports[1] == reports[5]
    assert len(set(reports)) == 4
    assert groups[0] == groups[1] != groups[2]
    assert known[4, 2:].tolist() == [1, 0, 0, 1]


def test_each_tower_is_a_graph_of_its_own() -> None:
    graphs = candidates.signature(task()).graphs

    assert {name: (graph.inputs, graph.outputs) for name, graph in graphs.items()} == {
        "image": (["pixels"], ["score", "image_embedding"]),
        "text": (["tokens"], ["text_embedding"]),
    }
