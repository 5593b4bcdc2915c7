"""What the evaluation shows of pairs: retrieval, differences between candidates, subgroups and shortcuts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nightshift.contracts.evaluation import Gain
from nightshift.contracts.section import Block, Estimate, Row, TableBlock, TableColumn, Text, Tone
from nightshift.stats.comparison import BootstrapEstimate
from nightshift_image_text.config import ImageTextConfig
from nightshift_image_text.contracts.evaluation import PartGap, Recall
from nightshift_image_text.retrieval import CUTOFFS
from nightshift_image_text.task.judging import PairContender
from nightshift_image_text.task.metrics import AUC_ROC, AVERAGE_PRECISION, METRICS, RECALL

COMPARED = (RECALL.name, AVERAGE_PRECISION, AUC_ROC)  # metrics of which differences are shown
NOTES = (
    "Retrieval: an image looks among the different reports, a report among all images; reports that are word for word "
    "the same are one, and an image belongs to each report of its study.",
    "Of equally near candidates, a hit counts as its probability under a random order.",
    "Recall of chance depends on how many images share a report.",
)


@dataclass(frozen=True)
class PairTrial:
    """Who stood against whom.

    Attributes:
        config: the use case.
        selected: name of the challenger.
        contenders: each candidate, measured on the test pairs.
        champion: measured on the same pairs; None without one.
    """

    config: ImageTextConfig
    selected: str
    contenders: Mapping[str, PairContender]
    champion: PairContender | None

    @property
    def others(self) -> dict[str, PairContender]:
        """The other candidates, and the champion."""
        others = {name: contender for name, contender in self.contenders.items() if name != self.selected}
        if self.champion:
            others[f"champion, version {self.champion.version}"] = self.champion
        return others


def blocks(trial: PairTrial) -> Iterator[Block]:
    """Yield retrieval, differences, subgroups and shortcuts."""
    yield _tabulate_recalls(trial)
    yield Text(sentences=list(NOTES), is_fine_print=True)
    if trial.others:
        yield _tabulate_differences(trial)
    yield from _tabulate_subgroups(trial)
    yield from _tabulate_shortcuts(trial)


def _tabulate_recalls(trial: PairTrial) -> TableBlock:
    titles = [f"{kind} in {cutoff}" for kind in ("Report", "Image") for cutoff in CUTOFFS]
    columns = [TableColumn(title="Candidate"), *(TableColumn(title=title, format="score") for title in titles)]
    challenger = trial.contenders[trial.selected]
    rows = [_row_of_recalls(trial.selected, challenger.recalls, "selected", "good")]
    rows += [_row_of_recalls(name, other.recalls, "", "neutral") for name, other in trial.others.items()]
    chance = [recall.chance for recall in challenger.recalls]
    rows.append(Row(cells=["by chance, mean of both", *chance, *chance]))
    return TableBlock(title="Right one among the nearest", columns=columns, rows=rows)


def _row_of_recalls(name: str, recalls: list[Recall], tag: str, tone: Tone) -> Row:
    gains = [*(recall.reports for recall in recalls), *(recall.images for recall in recalls)]
    return Row(cells=[name, *map(_cell, gains)], tag=tag, tone=tone)


def _tabulate_differences(trial: PairTrial) -> TableBlock:
    titles = [metric.title for metric in METRICS if metric.name in COMPARED]
    names = [metric.name for metric in METRICS if metric.name in COMPARED]
    columns = [TableColumn(title=f"{trial.selected} less"), *(TableColumn(title=t, format="score") for t in titles)]
    challenger = trial.contenders[trial.selected]
    rows = []
    for name, other in trial.others.items():
        gains = {metric: gain for metric, gain in challenger.gains(other).items() if metric in COMPARED}
        tag, tone = _judge_difference(gains[trial.config.task.select_by])
        rows.append(Row(cells=[name, *(_cell(gains.get(metric)) for metric in names)], tag=tag, tone=tone))
    return TableBlock(title="Differences on the same pairs, with 95 % intervals", columns=columns, rows=rows)


def _judge_difference(gain: BootstrapEstimate) -> tuple[str, Tone]:
    if gain.low > 0:
        return "beaten", "good"
    return ("better", "bad") if gain.high < 0 else ("within noise", "neutral")


def _cell(figure: Gain | BootstrapEstimate | None) -> Estimate | None:
    return Estimate(value=figure.value, low=figure.low, high=figure.high) if figure else None


def _tabulate_subgroups(trial: PairTrial) -> Iterator[Block]:
    """Yield how each scanner and site does, the widest gap first; nothing without columns of them."""
    challenger, limit = trial.contenders[trial.selected], trial.config.evaluation.max_gap
    if not challenger.subgroups:
        return
    titles = [f"{title}{side}" for title in ("ROC AUC", RECALL.title) for side in ("", " of others", " gap")]
    columns = [TableColumn(title="Subgroup"), TableColumn(title="Test pairs", format="count")]
    columns += [TableColumn(title=title, format="score") for title in titles]
    rows = []
    for subgroup in challenger.subgroups:
        measured = (subgroup.auc_roc, subgroup.recall)
        is_wide = any(part.gap.low > limit for part in measured if part)
        tag = "too few to judge" if not any(measured) else f"gap above {limit:g}" if is_wide else ""
        cells = [
            f"{subgroup.column} {subgroup.name}",
            subgroup.rows,
            *(cell for part in measured for cell in _gap(part)),
        ]
        rows.append(Row(cells=cells, tag=tag, tone="bad" if is_wide else "neutral"))
    yield TableBlock(title="Scanners and sites beside all others", columns=columns, rows=rows, shown=10)


def _gap(part: PartGap | None) -> tuple[float | None, float | None, Estimate | None]:
    return (part.value, part.others, _cell(part.gap)) if part else (None, None, None)


def _tabulate_shortcuts(trial: PairTrial) -> Iterator[Block]:
    limit = trial.config.evaluation.max_shortcut
    columns = [TableColumn(title="Finding"), TableColumn(title="Pairs taken for it", format="count")]
    titles = ("Fall of their scores", "ROC AUC", "with corners hidden")
    columns += [TableColumn(title=title, format="score") for title in titles]
    rows = []
    for shortcut in trial.contenders[trial.selected].shortcuts:
        fall = shortcut.fall
        is_beyond = fall is not None and fall.low > limit
        cells = [shortcut.finding, shortcut.rows, _cell(fall), shortcut.auc_roc, shortcut.hidden_auc_roc]
        tag = "too few to judge" if fall is None else f"above {limit:g}" if is_beyond else ""
        rows.append(Row(cells=cells, tag=tag, tone="bad" if is_beyond else "neutral"))
    yield TableBlock(title="Findings with the corners of images hidden", columns=columns, rows=rows)
