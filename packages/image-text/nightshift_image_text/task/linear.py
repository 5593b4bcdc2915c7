"""The baseline: pixels mapped by one matrix to what frozen text features say of reports, and to findings.

Reports are weighted words, reduced to their main directions (Deerwester et al., Indexing by Latent Semantic Analysis,
1990); the map is ridge regression. So whoever beats it has learned more than lines through pixels.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from onnx import TensorProto, helper
from pydantic import Field
from scipy.sparse import csr_array
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize
from torch import Tensor, nn

from nightshift.config.section import ConfigSection, Width, check_parameters
from nightshift.contracts.package import EMBEDDING
from nightshift.items import tokens
from nightshift.items.metrics import Labels
from nightshift.items.shards import Array
from nightshift.items.tokens import Tokenizer
from nightshift.tasks.classification import linear
from nightshift.tasks.classification.linear import Floats
from nightshift.tasks.items import networks
from nightshift.tasks.onnx_export import GraphBuilder
from nightshift_image_text.config import ImageTextTaskConfig
from nightshift_image_text.task.measuring import IMAGES, REPORTS, SCORE
from nightshift_image_text.task.views import PIXELS, TOKENS

LEAST = np.float32(1e-12)  # length; of torch.nn.functional.normalize
GRID = 16  # pooled pixels of either side, at most twice as many


class LinearParameters(ConfigSection):
    """What `task.candidates.<name>.parameters` may hold for the kind `linear`."""

    width: Width = Field(32, description="numbers of an embedding")
    penalty: float = Field(100.0, gt=0, description="of the map's weights (ridge regression's alpha)")


class LinearPairs(nn.Module):
    """A linear map of pooled pixels beside summed weights of tokens."""

    def __init__(self, words: Floats, image: "Affine", findings: "Affine") -> None:
        super().__init__()
        tokens, width = words.shape
        self.words = nn.Embedding(tokens, width, _weight=torch.from_numpy(words.astype(np.float32)))
        self.image, self.findings = image.as_layer(), findings.as_layer()

    def forward(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return probabilities of findings and embeddings of unit length, as a served network of two towers does."""
        pooled = pool(inputs[PIXELS])
        image, text = self.image(pooled), self.words(inputs[TOKENS].long()).sum(1)
        image, text = (nn.functional.normalize(values, dim=1) for values in (image, text))
        embeddings = {"image_embedding": image, "text_embedding": text, "embedding": torch.cat([image, text], 1)}
        return {"score": self.findings(pooled).sigmoid(), **embeddings}


@dataclass(frozen=True)
class Affine:
    """A linear function.

    Attributes:
        weights: (inputs, outputs).
        bias: (outputs,).
    """

    weights: Floats
    bias: Floats

    def as_layer(self) -> nn.Linear:
        """Return it as a layer, float32."""
        layer = nn.Linear(*self.weights.shape)
        state = {"weight": torch.from_numpy(self.weights.T), "bias": torch.from_numpy(self.bias)}
        layer.load_state_dict(state)
        return layer


def pool(pixels: Tensor) -> Tensor:
    """Return the means of an image's parts, 0 to 1: uint8 (n, side, side, channels) -> (n, inputs)."""
    images = pixels.permute(0, 3, 1, 2).float() / 255
    return nn.functional.avg_pool2d(images, max(1, images.shape[-1] // GRID)).flatten(1)


def fit(task: ImageTextTaskConfig, name: str, tokenizer: Tokenizer, inputs: Array, known: Labels) -> LinearPairs:
    """Fit the baseline.

    Args:
        task: its candidates.
        name: of the candidate.
        tokenizer: of the reports.
        inputs: `pixels` and `tokens` of n pairs, structured (n,).
        known: which findings each has, (n, findings).

    Raises:
        UserError: when a parameter is refused.
    """
    parameters = check_parameters(LinearParameters, networks.field(name), task.candidates[name].parameters)
    counts = tokens.count_tokens(tokenizer, inputs[TOKENS])
    words = weigh_words(counts, parameters.width)
    reports = normalize(counts @ words)
    images = pool(torch.from_numpy(np.ascontiguousarray(inputs[PIXELS]))).numpy()
    ridge = Ridge(alpha=parameters.penalty).fit(images, reports)
    line = linear.fit(task, name, images, known)
    return LinearPairs(words, Affine(ridge.coef_.T, ridge.intercept_), Affine(line.weights, line.bias))


def weigh_words(counts: csr_array, width: int) -> Floats:
    """Return the weights of each token in the main directions of reports, float64 (vocabulary, width).

    Args:
        counts: how often each report has each token, (n, vocabulary); a token that none has weighs nothing.
        width: how many directions.
    """
    rare = TfidfTransformer(norm=None).fit(counts)
    reduced = TruncatedSVD(width, random_state=0).fit(rare.transform(counts))
    words: Floats = rare.idf_[:, None] * reduced.components_.T
    return words


def export(model: LinearPairs, task: ImageTextTaskConfig) -> bytes:
    """Return the baseline as ONNX, with the inputs and outputs that a network of two towers has."""
    graph, shape = GraphBuilder(), (task.side, task.side, task.channels)
    pooled = _pool(graph, task.side)
    image = _normalize(graph, _apply(graph, model.image, pooled))
    weights = graph.node("Gather", graph.constant(_read(model.words.weight)), TOKENS)
    text = _normalize(graph, graph.node("ReduceSum", weights, graph.axes(1), keepdims=0))
    graph.embedding("Concat", image, text, axis=1)
    inputs = [
        helper.make_tensor_value_info(PIXELS, TensorProto.UINT8, [None, *shape]),
        helper.make_tensor_value_info(TOKENS, TensorProto.INT32, [None, task.length]),
    ]
    width = model.words.embedding_dim
    outputs = {SCORE: graph.node("Sigmoid", _apply(graph, model.findings, pooled)), IMAGES: image, REPORTS: text}
    widths = {SCORE: len(task.classes), IMAGES: width, REPORTS: width, EMBEDDING: 2 * width}
    return graph.scorer(inputs, outputs, {name: [size] for name, size in widths.items()})


def _pool(graph: GraphBuilder, side: int) -> str:
    images = graph.node("Cast", PIXELS, to=TensorProto.FLOAT)
    planes = graph.node("Transpose", graph.node("Div", images, graph.constant(np.float32(255))), perm=[0, 3, 1, 2])
    part = max(1, side // GRID)
    return graph.node("Flatten", graph.node("AveragePool", planes, kernel_shape=[part, part], strides=[part, part]))


def _apply(graph: GraphBuilder, layer: nn.Linear, x: str) -> str:
    return graph.node("Gemm", x, graph.constant(_read(layer.weight)), graph.constant(_read(layer.bias)), transB=1)


def _normalize(graph: GraphBuilder, x: str) -> str:
    length = graph.node("ReduceL2", x, axes=[1], keepdims=1)
    return graph.node("Div", x, graph.node("Max", length, graph.constant(LEAST)))


def _read(values: Tensor) -> npt.NDArray[np.float32]:
    array: npt.NDArray[np.float32] = values.detach().cpu().numpy()
    return array
