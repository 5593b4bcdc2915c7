"""How a report shows pairs: by their images."""

from dataclasses import replace

import numpy as np
import pandas as pd

from nightshift.contracts.package import ModelPackage, read_graph
from nightshift.contracts.section import Block, Pictures
from nightshift.items import scorer
from nightshift.items.images import Pixels
from nightshift.items.metrics import Scores
from nightshift.items.shards import Array
from nightshift.models.graph import Graph
from nightshift.models.tensors import Tensors
from nightshift.tasks.classification.mistakes import Answers
from nightshift.tasks.images import display as images
from nightshift.tasks.images import mistakes as mistaken
from nightshift_image_text.preprocessing import ImageTextPreprocessing
from nightshift_image_text.task.measuring import SCORE


def show(uri: str, model: ModelPackage, title: str, rows: pd.DataFrame, inputs: Array) -> Pictures:
    """Show what the images of some pairs were taken for.

    Args:
        uri: folder of the model.
        model: its manifest.
        title: of the pictures.
        rows: `event_id` and `predicted`, n rows.
        inputs: structured, with `pixels`, (n,).
    """
    return images.show(uri, model, title, rows, inputs["pixels"])


def mistakes(uri: str, model: ModelPackage, answers: Answers) -> Block | None:
    """Show the surest mistakes about findings, and which parts of each image decided; None without a mistake."""
    graph = Graph(read_graph(uri, model, model.selected))
    length = model.preprocessing_as(ImageTextPreprocessing).length

    def score(pixels: Pixels) -> Scores:
        """Score images alone: findings are told without a report."""
        inputs: Tensors = {"pixels": pixels, "tokens": np.zeros((len(pixels), length), np.int32)}
        return scorer.outputs(graph, inputs, (SCORE,))[SCORE]

    return mistaken.pictures(replace(answers, inputs=answers.inputs["pixels"]), score)
