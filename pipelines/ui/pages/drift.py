"""Drift: every signal over the days, as small multiples, and the newest verdicts."""

from collections.abc import Mapping, Sequence
from datetime import date

from nightshift.contracts.listings import DriftCheck, DriftedInput, DriftHistory
from nightshift.contracts.section import Block, Chart, Row, Series, TableColumn, Text, Tone
from nightshift.contracts.verdict import Decision
from pipelines.ui.pages.models import tabulate_measures
from pipelines.ui.pages.runs import link_use_case
from pipelines.ui.screen import PagePanel, Screen, make_axis, make_href, make_row, make_table, shorten, shorten_all
from pipelines.workspace import Workspace

CHECKS = 60
CHARTED = 24  # signals


def read(workspace: Workspace, params: Mapping[str, str]) -> DriftHistory:
    """Return the newest verdicts on drift of a use case.

    Raises:
        UserError: when it has no run.
    """
    return workspace.read_drift(params["name"], CHECKS)


def show(history: DriftHistory) -> Screen:
    """Return the page of a use case's drift."""
    name, days = history.use_case, _newest_by_day(history.checks)
    newest = days[-1] if days else None
    charts = _chart_signals(days)
    dense: list[Block] = list(charts) or [Text(sentences=["Two days with a check make a chart."])]
    latest: list[Block] = [tabulate_measures(newest.verdict.measures)] if newest else []
    return Screen(
        title=f"Drift of {shorten(name)}",
        lead=f"{newest.logical_date}: {newest.verdict.decision}" if newest else "No run has checked it yet.",
        tone=_tone(newest) if newest else "neutral",
        reasons=shorten_all(newest.verdict.reasons) if newest else [],
        links=link_use_case(name),
        panels=[
            PagePanel("Drifted inputs, the first to drift first", [_tabulate_drifted(history.drifted)]),
            PagePanel("Signals over days", dense, is_dense=True),
            *([PagePanel("The newest day", latest)] if latest else []),
            PagePanel("Days", [_tabulate(days)]),
        ],
    )


def _tabulate_drifted(drifted: Sequence[DriftedInput]) -> Block:
    columns = [TableColumn(title="Input"), TableColumn(title="Since")]
    titles = ("PSI", "Limit", "Wasserstein", "Limit")
    columns += [TableColumn(title=title, format="plain") for title in titles]
    rows = [
        make_row([one.name, str(one.since), one.psi, one.psi_limit, one.wasserstein, one.wasserstein_limit])
        for one in drifted
    ]
    return make_table("", columns, rows, "No input has drifted on the newest day.")


def _newest_by_day(checks: Sequence[DriftCheck]) -> list[DriftCheck]:
    """Return the newest check of each day, oldest day first."""
    days = {check.logical_date: check for check in reversed(checks)}
    return [days[day] for day in sorted(days)]


def _tone(check: DriftCheck) -> Tone:
    tones: dict[Decision, Tone] = {Decision.PASS: "good", Decision.FAIL: "bad"}
    return tones.get(check.verdict.decision, "neutral")


def _chart_signals(days: Sequence[DriftCheck]) -> list[Chart]:
    """Return a chart of each signal, those beyond their limit on the newest day first."""
    if len(days) < 2:
        return []
    names = dict.fromkeys(measure.name for check in reversed(days) for measure in check.verdict.measures)
    charts = [chart for name in names if (chart := _chart(name, days))]
    return sorted(charts, key=lambda chart: not chart.title.endswith(")"))[:CHARTED]


def _chart(name: str, days: Sequence[DriftCheck]) -> Chart | None:
    last = days[-1].logical_date
    measured = [
        (check.logical_date, measure)
        for check in days
        for measure in check.verdict.measures
        if measure.name == name and measure.value is not None
    ]
    values = [(_count_days(day, last), measure.value or 0.0) for day, measure in measured]
    if len(values) < 2:
        return None
    limits = [(_count_days(day, last), measure.limit) for day, measure in measured if measure.limit is not None]
    newest = measured[-1][1]
    notes = [f"{day}: {measure.value:.4g}" for day, measure in measured]
    return Chart(
        title=f"{shorten(name)} (beyond its limit)" if newest.is_beyond_limit else shorten(name),
        x=make_axis(f"days from {last}", [x for x, _ in values], is_whole=True),
        y=make_axis("value", [0.0, *(y for _, y in [*values, *limits])]),
        series=[
            Series(name="value", points=values),
            Series(name="each day", style="points", points=values, notes=notes),
            *([Series(name="limit", style="reference", points=limits)] if limits else []),
        ],
    )


def _count_days(day: date, last: date) -> float:
    return float((day - last).days)


def _tabulate(days: Sequence[DriftCheck]) -> Block:
    columns = [TableColumn(title="Day"), TableColumn(title="Verdict"), TableColumn(title="Why")]
    rows = [_row(check) for check in reversed(days)]
    return make_table("", columns, rows, "No run has checked it yet; `nightshift run monitoring` does.")


def _row(check: DriftCheck) -> Row:
    why = " ".join(check.verdict.reasons[:3])
    tone: Tone = "bad" if _tone(check) == "bad" else "neutral"
    cells = [str(check.logical_date), str(check.verdict.decision), why]
    return make_row(cells, make_href("runs", check.run), tag="drifted" if tone == "bad" else "", tone=tone)
