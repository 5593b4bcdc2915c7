"""Flags in, files out: see `components/drift/__init__.py`."""

from argparse import Namespace
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from components.common import artifacts, step, storage
from components.common.config import parse
from components.common.errors import UserError
from components.common.splits import Days, parse_date

if TYPE_CHECKING:
    import pandas as pd

    from components.common.bundle import Bundle
    from components.drift.core import Column, Verdict


def parser() -> step.Parser:
    """Return the step's flags."""
    return step.Parser("drift", "Compare the newest days with the training days, write a verdict.").takes(
        config="the use case's config (JSON)",
        date="logical date, YYYY-MM-DD",
        features="URI of the features manifest",
        model="URI of the model",
        drift="URI of the folder to write",
    )


def body(args: Namespace) -> dict[str, float]:
    """Compare, write the page, then the verdict."""
    from components.common import bundle
    from components.drift import core, evidently_report

    config, day = parse(args.config), parse_date(args.date)
    window = Days(day - timedelta(days=config.drift.window_days - 1), day)
    model = bundle.load(args.model)
    reference = bundle.read_reference(args.model)[[*model.inputs.columns, core.SCORE]]
    current = _scored(args, model, window)
    numeric = [*model.inputs.numeric, core.SCORE]

    step.log.info("comparing %d rows of %s with %d training rows", len(current), window, len(reference))
    columns = core.compare(reference, current, numeric, config.drift)
    verdict = core.judge(columns, config.drift)
    step.log.info("%s: %s", verdict.status, " ".join(verdict.reasons))
    page = evidently_report.render(reference, current, numeric, config.drift)
    storage.write_bytes(storage.join(args.drift, "evidently.html"), page.encode())
    trained = {key: model.details["train"][key] for key in ("first", "last")} | {"rows": len(reference)}
    rows = {"first": str(window.first), "last": str(window.last), "rows": len(current)}
    storage.write_json(storage.join(args.drift, "verdict.json"), _record(verdict, columns, rows, trained))
    return {"drifted_share": verdict.drifted_share, "score_psi": columns[-1].psi}


def _scored(args: Namespace, model: "Bundle", window: Days) -> "pd.DataFrame":
    """Return the window's rows as the model sees them, with its score as the last column."""
    from components.common.bundle import Scorer
    from components.drift.core import SCORE

    rows = artifacts.read_table(args.features).read(window)
    missing = [name for name in model.inputs.columns if name not in rows]
    if missing:
        raise UserError(f"the model needs input {missing[0]!r}, which the features of {window} lack; train it again")
    if rows.empty:
        raise UserError(f"the features of {window} have no rows, so there is nothing to compare; check the date")
    return rows[model.inputs.columns].assign(**{SCORE: Scorer(args.model, model).score(rows)})


def _record(
    verdict: "Verdict", columns: "list[Column]", window: dict[str, Any], reference: dict[str, Any]
) -> dict[str, Any]:
    return asdict(verdict) | {
        "window": window,
        "reference": reference,
        "columns": [asdict(column) for column in columns],
    }


if __name__ == "__main__":
    step.run(parser(), body)
