"""What scoring shows on the page of its run: how many events were scored and flagged, and how the scores lie."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nightshift.contracts.section import (
    Bars,
    Fact,
    Link,
    Links,
    Row,
    Section,
    SectionOutcome,
    TableBlock,
    TableColumn,
    Text,
)
from nightshift.contracts.tables import Partition
from nightshift.stats.figures import format_value

if TYPE_CHECKING:
    from components.scoring.alerts import ScoreAlert
    from components.scoring.serving_skew import ServingSkew

WEIGHT = 50


def build(
    parts: Sequence[Partition],
    version: str,
    flagged: int | None,
    quantiles: Mapping[str, float],
    skew: "ServingSkew | None",
    alerts: "Sequence[ScoreAlert]" = (),
    reasons: TableBlock | None = None,
) -> Section:
    """Return the section of some days' scores.

    Args:
        parts: the scores by day, the newest day last.
        version: of the model that scored.
        flagged: events of the newest day from the model's threshold up; None where it predicts classes.
        quantiles: quantile, such as `0.5` -> score on the newest day.
        skew: how they compare with the endpoint's answers, None without any.
        alerts: what a person has to know.
        reasons: which inputs moved the highest scores; None where nobody has asked.
    """
    newest = parts[-1]
    model = "the new model" if version == "unregistered" else f"version {version}"
    sentences = [alert.sentence for alert in alerts]
    sentences += [] if flagged is None else [f"{flagged:,} of them flagged."]
    sentences += skew.sentences if skew else []
    headline = f"{newest.rows:,} events of {newest.date} scored by {model}"
    outcome = SectionOutcome(
        headline="; ".join([headline, *(alert.headline for alert in alerts)]),
        label="look at them first" if alerts else "",
        tone="bad" if alerts else "neutral",
        reasons=sentences,
        next=None if version == "unregistered" else "monitoring",
    )
    days = Bars(title="Events scored by day", labels=[p.date for p in parts], heights=[float(p.rows) for p in parts])
    columns = [
        TableColumn(title="Share of events at or below", format="percent"),
        TableColumn(title="Score", format="score", has_bars=True),
    ]
    rows = [Row(cells=[float(share), score]) for share, score in quantiles.items()]
    blocks = [
        Text(sentences=[f"{newest.rows:,} events of {newest.date} scored by {model}.", *sentences]),
        days,
        TableBlock(title=f"Scores of {newest.date}", columns=columns, rows=rows),
        *([reasons] if reasons else []),
        Links(title="Scores by event", links=[Link(name="scores", uri=newest.uri)], is_key=version != "unregistered"),
    ]
    return Section(
        title="Scores",
        weight=WEIGHT,
        outcome=outcome,
        # what a new model says of past days is no news
        highlights=[] if version == "unregistered" else _highlights(newest, version, flagged),
        blocks=blocks,
    )


def _highlights(newest: Partition, version: str, flagged: int | None) -> list[Fact]:
    facts = [
        Fact(label="Events scored", value=newest.rows, format="count", note=f"of {newest.date}"),
        Fact(label="Model version", value=version, note="the champion"),
    ]
    if flagged is not None:
        share = format_value(flagged / newest.rows if newest.rows else 0.0, "percent")
        facts.insert(1, Fact(label="Events flagged", value=flagged, format="count", note=f"{share} of those scored"))
    return facts
