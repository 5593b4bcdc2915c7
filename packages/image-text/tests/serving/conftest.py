"""Packages of a tiny graph of two towers, with indexes of pairs, as the optimization step writes them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from nightshift.contracts import package
from nightshift.contracts.package import DecisionRule, ModelPackage
from nightshift.items import tokens
from nightshift.items.tokens import Tokenizer
from nightshift.models.graph import Graph
from nightshift.serving.application import Application
from nightshift.serving.batching import ServerLimits
from nightshift.serving.files import DeploymentPointer
from nightshift.serving.versions import ModelManager, load
from nightshift_image_text import neighbors
from nightshift_image_text.preprocessing import ImageTextPreprocessing
from nightshift_testkit import packages
from nightshift_testkit.pairs import PairShape, build_pair_graph
from tests.nightshift.http.echo import answering

SHAPE = PairShape()
FINDINGS = ["nodule", "effusion"]


class Pairs:
    """Twenty pairs, and packages of graphs that see them."""

    preprocessing = ImageTextPreprocessing(
        classes=FINDINGS, side=SHAPE.side, channels=1, min_side=1, max_pixels=10_000, length=SHAPE.length,
        tokenizer=None, tokenizer_sha256="", vocabulary=SHAPE.vocabulary, pad=tokens.PAD,
    )  # fmt: skip

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        self.pixels = random.integers(0, 256, (20, SHAPE.side, SHAPE.side, 1), dtype=np.uint8)
        words = ["clear", "lungs", "nodule", "left", "right", "effusion", "large", "small"]
        self.reports = [" ".join(random.choice(words, 5)) for _ in range(20)]
        self.tokens = tokens.encode_texts(Tokenizer(b"", SHAPE.vocabulary, tokens.PAD), SHAPE.length, self.reports)
        self.images = [self.encode(pixels) for pixels in self.pixels]

    @staticmethod
    def encode(pixels: Any) -> bytes:
        content = BytesIO()
        Image.fromarray(pixels[:, :, 0]).save(content, "PNG")
        return content.getvalue()

    def save(self, folder: Path, seed: int = 0, mark: str = "") -> str:
        """Write a package with indexes, whose ids begin with a mark."""
        graph = build_pair_graph(SHAPE, seed)
        outputs = Graph(graph).run(
            ["image_embedding", "text_embedding"], {"pixels": self.pixels, "tokens": self.tokens}
        )
        rows = pd.DataFrame({"event_id": [f"{mark}e{row}" for row in range(20)], "report": self.reports})
        rows["study"] = [f"{mark}s{row}" for row in range(20)]
        files = dict(neighbors.index_pairs(rows, outputs["image_embedding"], outputs["text_embedding"]))
        manifest = packages.manifest(
            {"pair": graph},
            signature=SHAPE.signature,
            preprocessing=self.preprocessing,
            decision=DecisionRule(threshold=None, thresholds=[0.5, 0.5]),
            answer_files=[*files],
        )
        package.save(str(folder), manifest, {"pair": graph}, pd.DataFrame(), files.items())
        return str(folder)

    def expect(self, uri: str) -> dict[str, Any]:
        """What the whole graph of a package gives of all pairs, offline."""
        model = package.load(uri)
        graph = Graph(package.read_graph(uri, model, "pair"))
        names = ["score", "image_embedding", "text_embedding"]
        return dict(graph.run(names, {"pixels": self.pixels, "tokens": self.tokens}))


def point(uri: str, version: int = 1) -> DeploymentPointer:
    """Return a pointer to a package."""
    return DeploymentPointer(version, uri, package.load(uri).sha256, "2024-03-10T00:00:00+00:00")


def serve(
    read: Callable[[], DeploymentPointer], limits: ServerLimits
) -> tuple[ModelManager, AbstractContextManager[str]]:
    """Return what holds the version that a pointer names, and its server."""
    manager = ModelManager(read, partial(load, "scans", limits=limits))
    return manager, answering(Application(manager, limits))


@pytest.fixture(scope="session")
def pairs() -> Pairs:
    return Pairs()


@pytest.fixture(scope="session")
def uri(pairs: Pairs, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a package."""
    return pairs.save(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="session")
def model(uri: str) -> ModelPackage:
    return package.load(uri)


@pytest.fixture(scope="session")
def url(uri: str) -> Iterator[str]:
    """Address of a server of the package."""
    target = point(uri)
    with serve(lambda: target, ServerLimits())[1] as address:
        yield address


@pytest.fixture(scope="session")
def server() -> Any:
    """How tests serve pointers of their own."""
    return serve


@pytest.fixture(scope="session")
def pointer() -> Any:
    """How tests point to a package."""
    return point
