"""Flags in, files out: see `components/evaluation/__init__.py`."""

from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from components.common import release, splits, step, storage
from components.common.config import Config, parse
from components.common.config.policy import Evaluation
from components.common.contracts import evaluation, package, tables, verdict
from components.common.contracts.artifact import LabeledWindow
from components.common.contracts.evaluation import Curves
from components.common.contracts.online import Replay
from components.common.contracts.section import Block, write_section
from components.common.contracts.state import State
from components.common.dates import parse_date
from components.common.registry import Version
from components.common.release import Place
from components.common.splits import Days, Fold

if TYPE_CHECKING:
    import pandas as pd

    from components.classes.metrics import Scores
    from components.classes.shards import Array, Items
    from components.evaluation import classes
    from components.evaluation.core import Champion, Contender, Trial
    from components.evaluation.explain import Explanation
    from components.evaluation.mistakes import Answers


def parser() -> step.Parser:
    """Return the step's flags."""
    return step.Parser("evaluation", "Measure the candidates on the test days, write a verdict.").takes(
        config="the use case's config (JSON)",
        date="logical date, YYYY-MM-DD",
        features="URI of the features manifest",
        model="URI of the model",
        state="where things are kept (JSON)",
        evaluation="URI of the folder to write",
    )


def body(args: Namespace) -> dict[str, Any]:
    """Evaluate against the registry's champion."""
    return evaluate(args, release.champion)


def evaluate(args: Namespace, find_champion: Callable[[Place], Version | None]) -> dict[str, Any]:
    """Measure, compare, write the figures and the model card, then the verdict.

    Args:
        args: the flags.
        find_champion: place of the releases -> the version that serves.
    """
    from components.evaluation import core, notes, skew, visuals
    from components.tabular.inputs import Scorer

    config = parse(args.config)
    if config.columns.content:
        return _of_classes(args, config, find_champion)
    gate, fold = config.evaluation, splits.plan(config, parse_date(args.date)).test
    rows, model = _test_rows(args.features, fold, config), package.load(args.model)
    positives = int(rows["label"].sum())
    step.log.info("scoring %d test rows of %s, %d of them positive", len(rows), fold.test, positives)
    scores = {name: Scorer(args.model, model, name).score(rows) for name in model.candidates}
    candidates = {name: core.measure(rows, values, model, gate) for name, values in scores.items()}

    challenger = candidates[model.selected]
    champion = _champion(find_champion(Place.of(State.parse(args.state), config.name)), rows, gate)
    judged = core.judge(challenger, champion, positives, gate)
    step.log.info("%s: %s", judged.decision, " ".join(judged.reasons))
    test = LabeledWindow(first=fold.test.first, last=fold.test.last, rows=len(rows), positives=positives)
    labels, chosen = rows["label"].to_numpy(dtype="int8"), scores[model.selected]
    curves = core.curves(labels, chosen)
    unusual = notes.notes(rows, model, gate)
    for note in unusual:
        step.log.warning("%s", note)
    unseen = notes.unseen(rows, model.tabular)
    replay = Replay.model_validate(tables.read_table(args.features).details["replay"])
    trial = core.Trial(config, model, test, candidates, champion, judged, unseen, unusual, skew.judge(replay, model))
    _save(args.evaluation, trial, curves, _explained(args.model, trial, rows.assign(score=chosen), curves))
    reported = {"passed": float(judged.passed), **_measured("", challenger)}
    if isinstance(champion, core.Champion):
        reported |= _measured("champion_", champion)
    drawn = {"classification": visuals.classification(labels, chosen, model.threshold)}
    return reported | drawn


def _of_classes(args: Namespace, config: Config, find_champion: Callable[[Place], Version | None]) -> dict[str, Any]:
    """Measure, compare, write the figures, then the verdict, where a task has classes."""
    from components.classes import bootstrap, shards
    from components.evaluation import classes, classes_card, classes_section, classes_slices, mistakes, visuals

    fold, names = splits.plan(config, parse_date(args.date)).test, config.classes.classes
    model = package.load(args.model)
    items = _items(args.features, fold, model)
    unseen = items.unseen(fold)
    left_out = len(splits.rows_of(items.rows, fold.test)) - len(unseen)
    rows = classes.Rows(shards.labels(unseen, names), bootstrap.groups(unseen), names)
    step.log.info("scoring %d test rows of %s, %d left out", len(unseen), fold.test, left_out)
    inputs = items.inputs(unseen)
    scores = {name: _scores(args.model, model, name, inputs) for name in model.candidates}
    candidates = {name: classes.measure(rows, found, model) for name, found in scores.items()}
    challenger, chosen = candidates[model.selected], scores[model.selected]
    champion = _champion_of_classes(find_champion(Place.of(State.parse(args.state), config.name)), rows, model, inputs)
    judged = classes.judge(challenger, champion, config)
    step.log.info("%s: %s", judged.decision, " ".join(judged.reasons))
    test = LabeledWindow(first=fold.test.first, last=fold.test.last, rows=len(unseen))
    slices = classes_slices.slices(model.classes, inputs, chosen.argmax(1) == rows.labels)
    trial = classes.Trial(config, model, test, left_out, candidates, champion, judged, slices)
    figures = trial.figures(classes.calibration(rows, chosen))
    figures.write(storage.join(args.evaluation, evaluation.FILE))
    place = storage.join(args.evaluation, "model_card.md")
    answers = mistakes.Answers(unseen, inputs, rows.labels, chosen, names)
    write_section(args.evaluation, classes_section.build(trial, figures, place, _mistakes(args.model, model, answers)))
    storage.write_bytes(place, classes_card.render(trial, figures).encode())
    judged.write(storage.join(args.evaluation, verdict.FILE))
    drawn = {"classification": visuals.confused(figures.confusion, names)}
    return {"passed": float(judged.passed), **challenger.metrics, **drawn}


def _items(features: str, fold: Fold, model: package.ModelPackage) -> "Items":
    from components.classes.shards import Items, check

    table = tables.read_table(features)
    check(table, model.classes)
    return Items.of(table, Days(fold.train.first, fold.test.last))


def _scores(uri: str, model: package.ModelPackage, candidate: str, inputs: "Array") -> "Scores":
    from components.classes.scorer import Scorer

    return Scorer(uri, model, candidate).score(inputs)


def _mistakes(uri: str, model: package.ModelPackage, answers: "Answers") -> Block | None:
    from components.classes.scorer import Scorer
    from components.evaluation import mistakes

    if isinstance(model.classes, package.Images):
        return mistakes.of_images(answers, Scorer(uri, model).score)
    return mistakes.of_texts(answers, package.read_tokenizer(uri, model))


def _champion_of_classes(
    version: Version | None, rows: "classes.Rows", ours: package.ModelPackage, inputs: "Array"
) -> "classes.Contender | str":
    """Return the champion measured on the rows, or a sentence why there is none to compare with."""
    from components.evaluation import classes

    if version is None:
        return "There was no champion to compare with."
    try:
        model = package.load(version.uri)
        if (model.signature, model.preprocessing) != (ours.signature, ours.preprocessing):
            return f"Champion version {version.version} takes other inputs, or tells other classes apart."
        return classes.measure(rows, _scores(version.uri, model, model.selected, inputs), model, version.version)
    except Exception as error:  # whatever is wrong with an old model must not stop the new one
        return f"Champion version {version.version} cannot be read: {' '.join(str(error).split())}."


def _measured(whose: str, contender: "Contender") -> dict[str, float]:
    found = {name: contender.metrics[name] for name in ("auc_roc", "average_precision", "precision_at_k")}
    return {f"{whose}{name}": value for name, value in found.items() if value is not None}


def _test_rows(features: str, fold: Fold, config: Config) -> "pd.DataFrame":
    from components.evaluation import core

    # the days since training began show which customers are known as compromised
    history = tables.read_table(features).read(Days(fold.train.first, fold.test.last))
    return core.checked(splits.test_rows(history, fold, config.protocol.drop_compromised))


def _champion(version: Version | None, rows: "pd.DataFrame", gate: Evaluation) -> "Champion | str":
    """Return the champion measured on the rows, or a sentence why there is none to compare with."""
    from components.evaluation import core
    from components.tabular.inputs import Scorer

    if version is None:
        return "There was no champion to compare with."
    try:
        model = package.load(version.uri)
        missing = [name for name in model.tabular.columns if name not in rows]
        if missing:
            return f"Champion version {version.version} needs input {missing[0]!r}, which the features lack now."
        measured = core.measure(rows, Scorer(version.uri, model).score(rows), model, gate)
        return core.Champion(**vars(measured), version=version.version)
    except Exception as error:  # whatever is wrong with an old model must not stop the new one
        return f"Champion version {version.version} cannot be read: {' '.join(str(error).split())}."


def _explained(uri: str, trial: "Trial", scored: "pd.DataFrame", curves: Curves) -> "Explanation":
    """Explain the selected candidate; `scored` are the test rows with its `score`."""
    from components.evaluation import explain
    from components.tabular.inputs import Scorer

    scorer, columns = Scorer(uri, trial.model), trial.model.tabular.columns
    return explain.Explanation(
        slices=explain.slices(scored, trial.config.tabular.longest_window_days),
        calibration=explain.Calibration.of(curves.calibration),
        importances=explain.importances(scored, columns, scorer.score),
    )


def _save(folder: str, trial: "Trial", curves: Curves, explained: "Explanation") -> None:
    """Write all the rest, then `verdict.json`, by which the folder is complete."""
    from components.evaluation import card, section

    trial.figures(curves).write(storage.join(folder, evaluation.FILE))
    place = storage.join(folder, "model_card.md")
    write_section(folder, section.build(trial, curves, explained, place))
    storage.write_bytes(place, card.render(trial, explained).encode())
    trial.skew.write(storage.join(folder, verdict.SKEW))
    trial.verdict.write(storage.join(folder, verdict.FILE))


if __name__ == "__main__":
    step.run(parser(), body)
