"""Whether a challenger that pairs images with reports may replace the champion."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from nightshift.contracts.package import ModelPackage
from nightshift.contracts.verdict import Measure, Verdict
from nightshift.items import metrics
from nightshift.stats import bootstrap
from nightshift.tasks.classification import judging as classification
from nightshift.tasks.classification.judging import ItemContender, LabeledItems
from nightshift.tasks.trials import Gate
from nightshift_image_text.config import ImageTextConfig
from nightshift_image_text.contracts.evaluation import PartGap, Recall, Shortcut, Subgroup
from nightshift_image_text.retrieval import CUTOFFS, Hits, Pairs, find_chance, find_hits, name_recalls
from nightshift_image_text.task.measuring import PairAnswers
from nightshift_image_text.task.metrics import AUC_ROC, RECALL
from nightshift_image_text.task.subgroups import state


@dataclass(frozen=True, kw_only=True)
class PairContender(ItemContender):
    """A model version, measured on the test pairs.

    Attributes:
        recalls: both ways, by cutoff.
        subgroups: of the challenger, how it does on each scanner and site.
        shortcuts: of the challenger, what its scores owe to the corners of images.
    """

    recalls: list[Recall] = field(default_factory=list)
    subgroups: list[Subgroup] = field(default_factory=list)
    shortcuts: list[Shortcut] = field(default_factory=list)


def measure(
    rows: LabeledItems, pairs: Pairs, answers: PairAnswers, model: ModelPackage, version: int = 0
) -> PairContender:
    """Measure what a model says of the test pairs."""
    contender = classification.measure(rows, answers.scores, model, version)
    hits = find_hits(answers.embeddings, pairs)
    drawn = bootstrap.mean_of_groups(hits.both, rows.groups)
    areas = metrics.average_known(metrics.resample_auc_rocs(rows.labels, answers.scores, rows.groups))
    fields = {
        **vars(contender),
        "metrics": {**{name: float(value) for name, value in name_recalls(hits.both.mean(0))}, **contender.metrics},
        "resamples": {**contender.resamples, **dict(name_recalls(drawn)), AUC_ROC: areas},
    }
    if contender.metrics["auc_roc"] is None:  # of findings that all rows have, or none
        del fields["resamples"][AUC_ROC]
    return PairContender(**fields, recalls=list(_state_recalls(hits, pairs, rows.groups)))


def _state_recalls(hits: Hits, pairs: Pairs, groups: metrics.Labels) -> Iterator[Recall]:
    drawn = [bootstrap.mean_of_groups(direction, groups) for direction in hits]
    chance = find_chance(pairs).both.mean(0)
    for number, cutoff in enumerate(CUTOFFS):
        reports, images = (
            state(float(direction[:, number].mean()), resamples[:, number])
            for direction, resamples in zip(hits, drawn, strict=True)
        )
        yield Recall(cutoff=cutoff, reports=reports, images=images, chance=float(chance[number]))


def judge(
    challenger: PairContender,
    champion: PairContender | str,
    config: ImageTextConfig,
    reference: PairContender | None = None,
) -> Verdict:
    """Decide whether the challenger may replace the champion, by `find_gate`; the rule is that of `trials.judge`."""
    gate = find_gate(challenger, champion, config)
    return classification.decide(challenger, champion, gate, config, reference)


def find_gate(challenger: PairContender, champion: PairContender | str, config: ImageTextConfig) -> Gate:
    """Return what a challenger has to pass: what models of classes have to, and more.

    The floor `min_recall`, and `max_gap`: where the mean ROC AUC or the recall of a scanner or a site lies below that
    of all other pairs by more, beyond noise, it is refused. Where scores owe more than `max_shortcut` to the corners of
    images, beyond noise, a person has to look: see `nightshift_image_text.task.shortcuts`.
    """
    gate, recall = classification.find_gate(challenger, champion, config), challenger.estimates()[RECALL.name]
    refused = [] if gate.undecidable else [*_below_floor(challenger, config), *_beyond_gap(challenger, config)]
    return replace(
        gate,
        refused=[*gate.refused, *refused],
        passed=f"The challenger passes the floors with {RECALL.title} {recall} on {challenger.rows} pairs (95 % "
        "interval).",
        measures=[*_limit_recall(gate.measures, config), *_measure_parts(challenger, config)],
        held=[] if gate.undecidable else [*_beyond_shortcut(challenger, config)],
    )


def _below_floor(challenger: PairContender, config: ImageTextConfig) -> Iterator[str]:
    recall, floor = challenger.value(RECALL.name), config.evaluation.min_recall
    if recall < floor:
        yield f"{RECALL.title} {recall:.3f} is below the floor {floor:g}."


def _beyond_gap(challenger: PairContender, config: ImageTextConfig) -> Iterator[str]:
    limit = config.evaluation.max_gap
    for subgroup in challenger.subgroups:
        for title, measured in (("Mean ROC AUC", subgroup.auc_roc), (RECALL.title, subgroup.recall)):
            if measured and measured.gap.low > limit:
                yield f"{title} of {describe_gap(subgroup, measured)}, above {limit:g}."


def describe_gap(subgroup: Subgroup, measured: PartGap) -> str:
    """Return a subgroup's figure beside that of the others, the end of a clause."""
    gap = measured.gap
    return (
        f"{subgroup.column} {subgroup.name!r} is {measured.value:.3f} on {subgroup.rows} pairs, that of all others "
        f"{measured.others:.3f}: a gap of {gap.value:.3f} [{gap.low:.3f}, {gap.high:.3f}]"
    )


def _beyond_shortcut(challenger: PairContender, config: ImageTextConfig) -> Iterator[str]:
    limit = config.evaluation.max_shortcut
    for shortcut in challenger.shortcuts:
        fall = shortcut.fall
        if fall and fall.low > limit:
            yield (
                f"Without the corners of images, the score of {shortcut.finding!r} falls by {fall.value:.3f} "
                f"[{fall.low:.3f}, {fall.high:.3f}] on the {shortcut.rows} pairs taken for it, above {limit:g}: it may "
                "be read off a mark there; look at the images, or raise evaluation.max_shortcut if findings lie there."
            )


def _limit_recall(measures: list[Measure], config: ImageTextConfig) -> Iterator[Measure]:
    for measure in measures:
        is_limited = measure.name == RECALL.name
        yield measure.model_copy(update={"limit": config.evaluation.min_recall}) if is_limited else measure


def _measure_parts(challenger: PairContender, config: ImageTextConfig) -> Iterator[Measure]:
    """Yield the widest gap and the largest shortcut: the low ends of their intervals, which the gate judges."""
    parts = [part for subgroup in challenger.subgroups for part in (subgroup.auc_roc, subgroup.recall) if part]
    gaps, falls = [part.gap for part in parts], [shortcut.fall for shortcut in challenger.shortcuts if shortcut.fall]
    limits = config.evaluation
    for name, stated, limit in (
        ("gap_beyond_noise", gaps, limits.max_gap),
        ("shortcut_beyond_noise", falls, limits.max_shortcut),
    ):
        if stated:
            worst = stated[int(np.argmax([figure.low for figure in stated]))]
            yield Measure(
                name=name,
                value=worst.low,
                limit=limit,
                interval=(worst.low, worst.high),
                higher_is_better=False,
            )
