"""What a reader has to know of the rows behind the figures: categories nobody has seen, constants, empty days."""

from collections.abc import Iterator

import pandas as pd

from nightshift.config.tabular import TabularEvaluationGate
from nightshift.contracts.evaluation import UnseenValues
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.preprocessing import Inputs


def unseen(rows: pd.DataFrame, inputs: Inputs) -> dict[str, UnseenValues]:
    """Return the columns of some rows with such values.

    Args:
        rows: the categorical inputs; n rows.
        inputs: of the model.
    """
    unseen_values = {}
    for name, categories in inputs.categorical.items():
        values = rows[name].astype(str)
        values = values[~values.isin(categories)]
        if len(values):
            unseen_values[name] = UnseenValues(
                distinct=values.nunique(), rows=len(values), share=len(values) / len(rows)
            )
    return unseen_values


def notes(rows: pd.DataFrame, model: ModelPackage, gate: TabularEvaluationGate) -> list[str]:
    """Return a sentence for everything that is out of the ordinary.

    Args:
        rows: the test rows: `event_time`, `label` and the inputs; n rows.
        model: what was trained.
        gate: says how many are checked a day.
    """
    inputs = model.tabular
    described = [*_unseen(rows, inputs), *_missing(rows, inputs), *_constant(model), *_empty_days(rows)]
    return [*described, *_describe_unparted(model, gate)]


def _unseen(rows: pd.DataFrame, inputs: Inputs) -> Iterator[str]:
    for name, values in unseen(rows, inputs).items():
        known, share = len(inputs.categorical[name]), f"{values.rows:,} of {len(rows):,} test rows ({values.share:.1%})"
        yield (
            f"{name}: {share} hold {values.distinct:,} values that are not among the model's {known} categories; they "
            "are scored as none of these."
        )


def _missing(rows: pd.DataFrame, inputs: Inputs) -> Iterator[str]:
    for name in inputs.nullable:
        if count := int(rows[name].isna().sum()):
            share = f"{count:,} of {len(rows):,} test rows ({count / len(rows):.1%})"
            yield (
                f"{name}: missing in {share}; trees have a branch for it, other candidates take the mean of the "
                "training rows."
            )


def _constant(model: ModelPackage) -> Iterator[str]:
    constant = model.lineage.constant
    if constant:
        yield f"Constant in all training rows, so nothing was learned from: {', '.join(constant)}."


def _empty_days(rows: pd.DataFrame) -> Iterator[str]:
    positive = rows["label"].groupby(rows["event_time"].dt.date).max() == 1
    empty = positive.index[~positive]
    if len(empty):
        yield (
            f"{len(empty)} of {len(positive)} test days hold no positive, the first is {empty[0]}; such a day adds 0 "
            "to the precision at k and to its ceiling."
        )


def _describe_unparted(model: ModelPackage, gate: TabularEvaluationGate) -> Iterator[str]:
    seen = model.lineage.validation
    if gate.top_k * seen.open_days >= seen.rows:
        yield (
            f"evaluation.top_k is {gate.top_k}, and the validation days hold {seen.rows / seen.open_days:,.0f} events "
            "per open day: "
            "every event would be flagged; lower it."
        )
