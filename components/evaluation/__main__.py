"""Flags in, files out: see `components/evaluation/__init__.py`."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from components.common import artifacts, splits, step, storage
from components.common.config import Config, parse
from components.common.splits import Days, Fold

if TYPE_CHECKING:
    import pandas as pd

    from components.common.registry import Version
    from components.evaluation.core import Champion, Contender, Verdict


def parser() -> step.Parser:
    """Return the step's flags."""
    return step.Parser("evaluation", "Measure the candidates on the test days, write a verdict.").takes(
        config="the use case's config (JSON)",
        date="logical date, YYYY-MM-DD",
        features="URI of the features manifest",
        model="URI of the model",
        registry="URI of the model registry",
        evaluation="URI of the folder to write",
    )


def body(args: Namespace) -> dict[str, float]:
    """Evaluate against the registry's champion."""
    from components.common import registry

    return evaluate(args, registry.champion)


def evaluate(args: Namespace, find_champion: "Callable[[str, str], Version | None]") -> dict[str, float]:
    """Measure, compare, write the figures, then the verdict.

    Args:
        args: the flags.
        find_champion: registry and model name -> the version that serves.
    """
    from components.common import bundle, metrics
    from components.evaluation import core

    config = parse(args.config)
    gate, fold = config.evaluation, splits.plan(config, splits.parse_date(args.date)).test
    rows, model = _test_rows(args.features, fold, config), bundle.load(args.model)
    frauds = int(rows["label"].sum())
    step.log.info("scoring %d test rows of %s, %d of them frauds", len(rows), fold.test, frauds)
    scores = {name: bundle.Scorer(args.model, model, name).score(rows) for name in model.candidates}
    models = {name: metrics.evaluate(rows, values, gate.top_k) for name, values in scores.items()}

    challenger = core.Contender(model.sha256, models[model.selected])
    champion = _champion(find_champion(args.registry, config.name), rows, gate.top_k)
    verdict = core.judge(challenger, champion, frauds, gate)
    step.log.info("%s: %s", verdict.decision, " ".join(verdict.reasons))
    curves = core.curves(rows["label"].to_numpy(dtype="int8"), scores[model.selected])
    test = {"first": str(fold.test.first), "last": str(fold.test.last), "rows": len(rows), "frauds": frauds}
    figures = {"test": test, "top_k": gate.top_k, "models": models, "selected": model.selected, "curves": curves}
    _save(args.evaluation, figures, verdict, challenger, champion)
    reported = {name: challenger.metrics[name] for name in ("auc_roc", "average_precision", "card_precision")}
    return {name: value for name, value in reported.items() if value is not None}


def _test_rows(features: str, fold: Fold, config: Config) -> "pd.DataFrame":
    from components.evaluation import core

    # the days since training began tell which customers are known as compromised
    history = artifacts.read_table(features).read(Days(fold.train.first, fold.test.last))
    return core.checked(splits.test_rows(history, fold, config.protocol.drop_compromised))


def _champion(version: "Version | None", rows: "pd.DataFrame", top_k: int) -> "Champion | str":
    """Return the champion measured on the rows, or a sentence why there is none to compare with."""
    from components.common import bundle, metrics
    from components.evaluation import core

    if version is None:
        return "There is no champion yet."
    try:
        model = bundle.load(version.uri)
        missing = [name for name in model.inputs.columns if name not in rows]
        if missing:
            return f"Champion version {version.version} needs input {missing[0]!r}, which the features lack now."
        scores = bundle.Scorer(version.uri, model).score(rows)
        measured = metrics.evaluate(rows, scores, top_k)
        return core.Champion(model.sha256, measured, version.version)
    except Exception as error:  # whatever is wrong with an old model must not stop the new one
        return f"Champion version {version.version} cannot be read: {' '.join(str(error).split())}."


def _save(
    folder: str, figures: dict[str, Any], verdict: "Verdict", challenger: "Contender", champion: "Champion | str"
) -> None:
    """Write `evaluation.json`, then `verdict.json`, by which the folder is complete."""
    known = None if isinstance(champion, str) else champion
    figures["champion"] = known and {"version": known.version, **known.metrics}
    judgement = asdict(verdict) | {
        "challenger_sha256": challenger.sha256,
        "challenger": challenger.metrics,
        "champion": known and {"version": known.version, "sha256": known.sha256, "metrics": known.metrics},
    }
    storage.write_json(storage.join(folder, "evaluation.json"), figures)
    storage.write_json(storage.join(folder, "verdict.json"), judgement)


if __name__ == "__main__":
    step.run(parser(), body)
