"""Manifests of models, for tests that need one: everything is there, and what matters is given."""

from typing import Any

from nightshift.contracts.artifact import FoldWindow
from nightshift.contracts.package import (
    Datatype,
    DecisionRule,
    File,
    Format,
    Lineage,
    ModelPackage,
    PackagedCandidate,
    Signature,
    Tensor,
)
from nightshift.contracts.preprocessing import DAY, Feature, FeatureSpec, Inputs, TabularPreprocessing

DAYS = FoldWindow(first="2024-03-15", last="2024-03-16", rows=80, open_days=2, positives=10)
FEATURES = FeatureSpec(
    features=[
        Feature(
            name=f"customer_count_{days}d", function="count", entity=["customer"], length=days * DAY, with_event=True
        )
        for days in (1, 7)
    ],
    calendar=[],
    has_amount=True,
    amount_decimals=2,
    label_delay_days=1,
)


def lineage(**changes: Any) -> Lineage:
    fields = {
        "events_sha256": "e" * 64,
        "features_sha256": "f" * 64,
        "train": DAYS,
        "validation": DAYS,
        "selected_by": "average_precision",
        "reason": "it is the first",
        "constant": [],
        "device": "cpu",
        "seed": 0,
        "code_version": "0.3.0",
    }
    return Lineage.model_validate(fields | changes)


def candidate(name: str, **changes: Any) -> PackagedCandidate:
    fields = {"kind": "logistic_regression", "parameters": {}, "file": f"{name}.onnx", "validation": {}, "seconds": 0.1}
    return PackagedCandidate.model_validate(fields | changes)


def manifest(
    graphs: dict[str, bytes], inputs: Inputs | None = None, made_from: Lineage | None = None, **changes: Any
) -> ModelPackage:
    """The manifest of some graphs, the first of which is selected."""
    inputs = inputs or Inputs(numeric=["amount"], categorical={})
    package = ModelPackage(
        files=[File.describe(f"{name}.onnx", graph, Format.ONNX) for name, graph in graphs.items()],
        signature=Signature.of_scores(Tensor.of_rows(Datatype.FP32, inputs.width)),
        preprocessing=TabularPreprocessing(**dict(inputs), features=FEATURES),
        decision=DecisionRule(threshold=0.5),
        selected=next(iter(graphs)),
        candidates={name: candidate(name) for name in graphs},
        dropped={},
        lineage=made_from or lineage(),
    )
    return package.model_copy(update=changes)
