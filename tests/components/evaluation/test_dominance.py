"""An input that ranks the test rows nearly alone holds a version for a person, who may allow it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from components.evaluation.__main__ import evaluate
from nightshift.config import parse
from nightshift.contracts.section import read_section
from nightshift.contracts.verdict import Verdict
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift.stats.ranking import RankingMetrics
from nightshift.tasks.tabular.dominance import find_dominant_inputs
from tests.components import samples
from tests.components.states import state

ROWS = 6000
Draw = np.random.Generator
Array = npt.NDArray[Any]


def mostly(positive: Array, draw: Draw, recall: float = 0.98, others: float = 0.01) -> Array:
    """Nearly all positives, and few of the others."""
    return np.where(positive, draw.random(len(positive)) < recall, draw.random(len(positive)) < others)


def numbers(positive: Array, draw: Draw) -> Array:
    return draw.normal(size=len(positive))


def is_strong(positive: Array, draw: Draw) -> Array:
    return draw.normal(1.2 * positive)


LEAKS = {
    "missing on all positives": lambda positive, draw: np.where(
        positive | (draw.random(ROWS) < 0.02), np.nan, numbers(positive, draw)
    ),
    "missing on nearly all others": lambda positive, draw: np.where(
        mostly(positive, draw), numbers(positive, draw), np.nan
    ),
    "one number": lambda positive, draw: np.where(mostly(positive, draw), 7.0, draw.integers(0, 50, ROWS)),
    "one category": lambda positive, draw: np.where(mostly(positive, draw), "closed", draw.choice(["a", "b"], ROWS)),
    "an empty category": lambda positive, draw: np.where(mostly(positive, draw), "", draw.choice(["a", "b"], ROWS)),
    "above a limit": lambda positive, draw: np.where(positive, 9.0, 0.0) + draw.normal(size=ROWS),
    "below a limit": lambda positive, draw: np.where(positive, -9.0, 0.0) + draw.normal(size=ROWS),
    "in a narrow range": lambda positive, draw: np.where(
        mostly(positive, draw, others=0), 0.05, 10.0
    ) * numbers(positive, draw),
}  # fmt: skip
HONEST = {
    "strong": is_strong,
    "noise": numbers,
    "constant": lambda positive, _: np.zeros(len(positive)),
    "never there": lambda positive, _: np.full(len(positive), np.nan),
    "a code of its own": lambda positive, draw: draw.permutation(len(positive)).astype(str),
    "often missing": lambda positive, draw: np.where(draw.random(ROWS) < 0.5, np.nan, is_strong(positive, draw)),
}


def dominant(values: Array, positive: Array, model: RankingMetrics) -> list[str]:
    frame = pd.DataFrame({"value": values, "label": positive.astype(int)})
    return list(map(str, find_dominant_inputs(frame[: ROWS // 2], frame[ROWS // 2 :], model)))


def metrics(auc_roc: float, average_precision: float) -> RankingMetrics:
    return {
        "auc_roc": auc_roc,
        "average_precision": average_precision,
        "precision_at_k": 0.5,
        "precision_at_k_ceiling": 1.0,
    }


@pytest.mark.parametrize("share", [0.01, 0.1, 0.4])
@pytest.mark.parametrize("kind", LEAKS)
def test_a_value_or_its_absence_that_tells_all_is_dominant_whatever_its_kind(kind: str, share: float) -> None:
    draw = np.random.default_rng(3)
    positive = draw.permutation(ROWS) < share * ROWS
    # a model that has learned the leak and little else: its rows are ranked by it, half of the errors are left
    (named,) = dominant(LEAKS[kind](positive, draw), positive, metrics(0.99, 0.3))

    assert named == ("Whether 'value' is missing" if kind.startswith(("missing", "an empty")) else "Input 'value'")


@pytest.mark.parametrize("share", [0.01, 0.1, 0.4])
@pytest.mark.parametrize("kind", HONEST)
def test_honest_inputs_are_not_dominant_beside_a_model_that_adds_to_them(kind: str, share: float) -> None:
    draw = np.random.default_rng(4)
    positive = draw.permutation(ROWS) < share * ROWS

    assert dominant(HONEST[kind](positive, draw), positive, metrics(0.88, 0.5)) == []


def test_a_weak_input_beside_a_weak_model_is_not_dominant() -> None:
    draw = np.random.default_rng(5)
    positive = draw.permutation(ROWS) < 600

    assert dominant(draw.normal(0.3 * positive), positive, metrics(0.59, 0.14)) == []
    assert dominant(is_strong(positive, draw), positive, {**metrics(0.5, 0.5), "auc_roc": None}) == []


def judged(folder: Path, **evaluation: Any) -> tuple[Verdict, str]:
    """The verdict on a model that has seen the outcome in `settled`, and the headline."""
    frame = samples.features(rows_a_day=200)
    label = frame["label"].fillna(0).to_numpy(dtype=float)
    frame["settled"] = label + np.random.default_rng(0).normal(0, 0.35, len(frame))
    config = samples.CONFIG | {"columns": samples.CONFIG["columns"] | {"numeric": ["settled"]}}
    config |= {"evaluation": samples.CONFIG["evaluation"] | evaluation}
    samples.write_model(folder / "model", {"first": [0.01, 1.0]}, inputs=("amount", "settled"))
    paths = {"features": samples.write_features(folder, frame), "model": str(folder / "model")}
    flags = samples.flags(
        **paths, state=state(folder), evaluation=str(folder / "evaluation"), config=json.dumps(config)
    )
    evaluate(StepContext(flags), lambda _: None)
    section = read_section(str(folder / "evaluation"))
    assert section and section.outcome
    return Verdict.read(f"{folder}/evaluation/verdict.json"), section.outcome.headline


def test_a_model_with_such_an_input_is_held_until_the_config_allows_it(tmp_path: Path) -> None:
    verdict, headline = judged(tmp_path)

    assert (verdict.decision, verdict.is_held) == ("undecided", True)
    first, figures, advice, *_ = verdict.reasons
    assert first == "Input 'settled' by itself ranks the test rows nearly as well as the model."
    assert headline == f"{first} Evaluation of the new model: undecided"
    assert "ROC AUC 0.9" in figures and "average precision 0." in figures
    assert "Is 'settled' known before the outcome?" in advice and "evaluation.allowed_alone" in advice

    verdict, headline = judged(tmp_path / "allowed", allowed_alone=["settled"])
    assert (verdict.decision, verdict.caveat) == ("pass", "")
    assert headline == "Evaluation of the new model: pass"


def test_a_column_that_is_no_input_cannot_be_allowed() -> None:
    config = samples.CONFIG | {"evaluation": {"allowed_alone": ["amout"]}}

    with pytest.raises(UserError, match=r"evaluation\.allowed_alone\.amout: unknown; allowed here: amount"):
        parse(config)
