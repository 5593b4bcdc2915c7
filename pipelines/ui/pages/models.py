"""Models: the versions of a use case with their metrics, which one was live when, and where each comes from."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from nightshift import registry, storage
from nightshift.contracts.browsing import VersionHistory, VersionRecord
from nightshift.contracts.listings import ListedVersion, ModelList
from nightshift.contracts.release_record import LivePeriod
from nightshift.contracts.section import Block, Chart, Estimate, Series, TableColumn, Text, Tone
from nightshift.contracts.verdict import FILE, Decision, Measure, Verdict
from nightshift.registry import Version
from nightshift.runtime.errors import UserError
from pipelines.ui.pages.home import read_release
from pipelines.ui.pages.runs import link_use_case
from pipelines.ui.screen import (
    ActionForm,
    PageChoice,
    PageLink,
    PagePanel,
    Screen,
    format_moment,
    make_axis,
    make_href,
    make_row,
    make_table,
    shorten,
    shorten_all,
)
from pipelines.workspace import Workspace, read_summary

LISTED, CHARTED = 60, 8  # versions, measures
EVALUATION = f"evaluation/evaluation/{FILE}"  # in a run's folder
DAY_SECONDS = 86400
WAITS = ["It has passed its gates and waits for a person's approval."]


def read_list(workspace: Workspace, _: Mapping[str, str]) -> ModelList:
    """Return the registered versions of all use cases.

    Raises:
        UserError: when there is none.
    """
    return workspace.list_models()


def show_list(models: ModelList) -> Screen:
    """Return the page of all models: the newest version and the champion of each use case."""
    newest = {version.use_case: version for version in models.versions}
    live = {version.use_case: version for version in models.versions if version.champion}
    columns = [
        TableColumn(title="Use case"),
        TableColumn(title="Champion"),
        TableColumn(title="Live since (UTC)"),
        TableColumn(title="Metric"),
        TableColumn(title="Its value", format="score"),
        TableColumn(title="Newest version", format="count"),
        TableColumn(title="Registered (UTC)"),
    ]
    rows = [
        make_row([name, *_describe_champion(live.get(name)), last.version, format_moment(last.registered_at)],
                 make_href("models", name))
        for name, last in newest.items()
    ]  # fmt: skip
    return Screen(
        title="Models", panels=[PagePanel("", [make_table("", columns, rows, "No model is registered yet.")])]
    )


def read_history(workspace: Workspace, params: Mapping[str, str]) -> VersionHistory:
    """Return the newest versions of a use case, and which one was live when.

    Raises:
        UserError: when it has none.
    """
    name = params["name"]
    listed = workspace.list_models(name).versions
    stored = {version.version: version for version in registry.versions(workspace.state.registry, name)}
    newest = [version for version in listed[-LISTED:] if version.version in stored]
    record = read_release(workspace, name)
    return VersionHistory(
        use_case=name,
        versions=[_describe(workspace, version, stored[version.version]) for version in newest],
        left_out=len(listed) - len(newest),
        periods=record.live_periods if record else [],
    )


def show_history(history: VersionHistory) -> Screen:
    """Return the page of a use case's models."""
    name = history.use_case
    older = [Text(sentences=[f"{history.left_out} older versions are left out."])] if history.left_out else []
    panels = [
        PagePanel("Versions", [_tabulate(history), *older]),
        PagePanel("Metrics over versions", _chart_measures(history.versions), is_dense=True),
        PagePanel("What was live when", [*_chart_periods(history.periods), _tabulate_periods(name, history.periods)]),
    ]
    numbers = {str(record.listed.version): f"version {record.listed.version}" for record in history.versions}
    fields = {"left": dict(reversed(list(numbers.items())[:-1])), "right": dict(reversed(numbers.items()))}
    choice = PageChoice("Compare two versions", make_href("compare", "versions", name), fields)
    return Screen(
        title=f"Models of {shorten(name)}",
        links=link_use_case(name),
        panels=panels,
        choices=[choice] if len(numbers) > 1 else [],
    )


def read_version(workspace: Workspace, params: Mapping[str, str]) -> VersionRecord:
    """Return a version of a use case.

    Raises:
        UserError: when there is none.
    """
    name, number = params["name"], _parse_number(params["version"])
    listed = [version for version in workspace.list_models(name).versions if version.version == number]
    stored = [version for version in registry.versions(workspace.state.registry, name) if version.version == number]
    if not listed or not stored:
        raise UserError(f"model {name!r} has no version {number}; its page lists those that exist")
    return _describe(workspace, listed[0], stored[0])


def show_version(record: VersionRecord) -> Screen:
    """Return the page of a version."""
    listed = record.listed
    links = [PageLink("All versions", make_href("models", listed.use_case))]
    if record.run:
        links += [PageLink("Its run", make_href("runs", record.run))]
        links += [PageLink("Its report", make_href("runs", record.run, "report"))]
    tones: dict[Decision | None, Tone] = {Decision.PASS: "good", Decision.FAIL: "bad"}
    since = f"live since {format_moment(listed.live_since)} UTC" if listed.live_since else "never live"
    return Screen(
        title=f"Version {listed.version} of {shorten(listed.use_case)}",
        lead=f"Champion, {since}" if listed.champion else since.capitalize(),
        tone=tones.get(record.decision, "neutral"),
        reasons=shorten_all([*WAITS, *record.reasons] if listed.waits else record.reasons),
        links=links,
        forms=_offer_approval(listed),
        panels=[
            PagePanel("Evaluation", [tabulate_measures(record.measures)]),
            PagePanel("Lineage", [_tabulate_tags(record)]),
        ],
    )


def _offer_approval(listed: ListedVersion) -> list[ActionForm]:
    href = make_href("models", listed.use_case, str(listed.version), "approve")
    return [ActionForm(f"Approve version {listed.version}", href)] if listed.waits and href else []


def tabulate_measures(measures: Sequence[Measure]) -> Block:
    """Return a table of what a gate has measured."""
    columns = [TableColumn(title="Measure"), TableColumn(title="Value", format="plain")]
    columns += [TableColumn(title="Limit", format="plain"), TableColumn(title="Better")]
    rows = [
        make_row([measure.name, estimate(measure), measure.limit, "higher" if measure.higher_is_better else "lower"])
        for measure in measures
    ]
    return make_table("", columns, rows, "Nothing has been measured, or the run that did is gone.")


def estimate(measure: Measure) -> Estimate | float | None:
    """Return the value of a measure, with its interval where it has one."""
    if measure.value is None or measure.interval is None:
        return measure.value
    low, high = measure.interval
    return Estimate(value=measure.value, low=low, high=high)


def _describe(workspace: Workspace, listed: ListedVersion, version: Version) -> VersionRecord:
    runs = {run.name: run for run in workspace.index.runs(version.name)}
    made_by = runs.get(version.tags.get(registry.PARENT_RUN, ""))
    verdict = workspace.index.try_derive(made_by, read_evaluation) if made_by else None
    return VersionRecord(
        listed=listed,
        sha256=version.sha256,
        run=made_by.name if made_by else None,
        decision=verdict.decision if verdict else None,
        reasons=verdict.reasons if verdict else [],
        measures=verdict.measures if verdict else [],
        tags=version.tags,
    )


def read_evaluation(folder: str) -> Verdict | None:
    """Return what a run in a folder says of its model, None where it has not judged one."""
    uri = storage.join(folder, EVALUATION)
    if not storage.exists(uri):
        # an engine may keep artifacts elsewhere
        uri = read_summary(folder).get("links", {}).get("verdict", "")
    return Verdict.read(uri) if uri and storage.exists(uri) else None


def _describe_champion(version: ListedVersion | None) -> tuple[str, str, str, float | None]:
    if version is None:
        return "none", "", "", None
    return f"version {version.version}", format_moment(version.live_since), version.metric or "", version.metric_value


def _tabulate(history: VersionHistory) -> Block:
    metric = next((record.listed.metric for record in history.versions if record.listed.metric), "Metric")
    columns = [
        TableColumn(title="Version"),
        TableColumn(title="Trained on"),
        TableColumn(title="Candidate"),
        TableColumn(title="Evaluation"),
        TableColumn(title=metric, format="score"),
        TableColumn(title="Live since (UTC)"),
    ]
    rows = [
        make_row(
            [
                str(record.listed.version),
                f"{record.listed.train_first or '?'} to {record.listed.train_last or '?'}",
                record.tags.get("candidate", ""),
                record.decision or record.tags.get("evaluation", "unknown"),
                _find_promise(record),
                format_moment(record.listed.live_since),
            ],
            make_href("models", history.use_case, str(record.listed.version)),
            tag="champion" if record.listed.champion else "waits for an approval" if record.listed.waits else "",
            tone="good" if record.listed.champion else "neutral",
        )
        for record in reversed(history.versions)
    ]
    return make_table("", columns, rows, "No version is registered yet.")


def _find_promise(record: VersionRecord) -> Estimate | float | None:
    """Return the metric that a version is held to, with its interval where its run is still there."""
    promised = next((measure for measure in record.measures if measure.name == record.listed.metric), None)
    return estimate(promised) if promised and promised.interval else record.listed.metric_value


def _chart_measures(versions: Sequence[VersionRecord]) -> list[Block]:
    """Return a chart of each measure over the versions, with its intervals."""
    names = dict.fromkeys(measure.name for version in versions for measure in version.measures)
    charts: list[Block] = [chart for name in names if (chart := _chart_measure(name, versions))]
    return charts[:CHARTED] or [Text(sentences=["Two versions with an evaluation make a chart."])]


def _chart_measure(name: str, versions: Sequence[VersionRecord]) -> Chart | None:
    values = {
        version.listed.version: estimate(measure)
        for version in versions
        for measure in version.measures
        if measure.name == name
    }
    known = {number: value for number, value in values.items() if value is not None}
    if len(known) < 2:
        return None
    middle = [(float(x), y.value if isinstance(y, Estimate) else y) for x, y in known.items()]
    bounds = [(float(x), y) for x, y in known.items() if isinstance(y, Estimate)]
    series = [
        Series(name=shorten(name), style="points", points=middle, notes=[f"version {x:g}: {y:.4g}" for x, y in middle]),
        Series(name="95 % interval, low", style="reference", points=[(x, y.low) for x, y in bounds]),
        Series(name="high", style="reference", points=[(x, y.high) for x, y in bounds]),
    ]
    reach = [y for _, y in middle] + [bound for _, y in bounds for bound in (y.low, y.high)]
    return Chart(
        title=shorten(name),
        x=make_axis("version", [x for x, _ in middle], is_whole=True),
        y=make_axis("value", reach),
        series=series if bounds else series[:1],
    )


def _chart_periods(periods: Sequence[LivePeriod]) -> Iterator[Block]:
    """Yield the live version over days, once there was more than one."""
    if len(periods) < 2:
        return
    last = max(period.until or period.since for period in periods)
    end = last if periods[-1].until else max(last, datetime.now(UTC))
    points = [
        ((moment - end).total_seconds() / DAY_SECONDS, float(period.version))
        for period in periods
        for moment in (period.since, period.until or end)
    ]
    yield Chart(
        title="The live version",
        x=make_axis(f"days from {format_moment(end)} UTC", [x for x, _ in points]),
        y=make_axis("version", [y for _, y in points], is_whole=True),
        series=[Series(name="live version", points=points)],
    )


def _tabulate_periods(name: str, periods: Sequence[LivePeriod]) -> Block:
    columns = [
        TableColumn(title="Version"),
        TableColumn(title="Since (UTC)"),
        TableColumn(title="Until (UTC)"),
        TableColumn(title="By"),
        TableColumn(title="Why"),
    ]
    rows = [
        make_row(
            [
                str(period.version),
                format_moment(period.since),
                format_moment(period.until) or "now",
                period.by,
                period.reasons[0] if period.reasons else "by hand" if not period.run else "",
            ],
            make_href("models", name, str(period.version)),
        )
        for period in reversed(periods)
    ]
    return make_table("", columns, rows, "Nothing was ever live.")


def _tabulate_tags(record: VersionRecord) -> Block:
    values = {"model (SHA-256)": record.sha256, **record.tags}
    rows = [make_row([name, value]) for name, value in values.items()]
    return make_table("", [TableColumn(title="What"), TableColumn(title="Value", format="code")], rows, "")


def _parse_number(text: str) -> int:
    if not text.isdecimal():
        raise UserError(f"version is {shorten(text)!r}; give a number")
    return int(text)
