"""Composes the page of a run: the sections of its steps, those about the run itself, and the headline over all."""

from collections.abc import Iterator, Sequence

import yaml

from components.reporting import costs
from components.reporting.core import RunArtifacts
from components.reporting.summary import Step, Summary
from nightshift.contracts.section import (
    Block,
    Code,
    Fact,
    FoldedBlocks,
    Link,
    Links,
    Page,
    Row,
    Section,
    SectionOutcome,
    TableBlock,
    TableColumn,
    Text,
)

STEPS_WEIGHT = 80
LINEAGE_WEIGHT = 90


def compose(summary: Summary, artifacts: RunArtifacts) -> Page:
    """Return the page of a run.

    Args:
        summary: of the run.
        artifacts: the sections of its steps, logs and library versions, which the summary leaves out.
    """
    sections = sorted(
        [*artifacts.sections, _steps(summary, artifacts), costs.build(summary), _lineage(summary, artifacts)],
        key=lambda section: section.weight,
    )
    first = None if summary.status == "failed" else next((section for section in sections if section.outcome), None)
    headline = first.outcome if first and first.outcome else _failure(summary)
    outcomes = [(section.title, section.outcome) for section in sections if section is not first and section.outcome]
    return Page(
        use_case=summary.config["name"],
        run=summary.run,
        headline=headline,
        outcomes=[(title, _drop_repeats(outcome, headline.reasons)) for title, outcome in outcomes if outcome.label],
        sections=sections,
    )


def _failure(summary: Summary) -> SectionOutcome:
    failed = [name for name, step in summary.steps.items() if step.state == "failed"]
    skipped = [name for name, step in summary.steps.items() if step.state == "skipped"]
    title = f"The run failed in {' and '.join(failed)}" if failed else "The run is incomplete"
    return SectionOutcome(
        headline=title, tone="bad", reasons=[f"No result from {', '.join(skipped)}."] if skipped else []
    )  # fmt: skip


def _drop_repeats(outcome: SectionOutcome, sentences: Sequence[str]) -> SectionOutcome:
    """Return an outcome without the reasons that stand elsewhere."""
    rest = [reason for reason in outcome.reasons if not any(reason in sentence for sentence in sentences)]
    return outcome.model_copy(update={"reasons": rest})


def _steps(summary: Summary, artifacts: RunArtifacts) -> Section:
    steps = summary.steps
    largest = max((step.peak_memory_bytes or 0 for step in steps.values()), default=0)
    total = Fact(
        label="Time in steps",
        value=sum(step.seconds or 0 for step in steps.values()),
        format="seconds",
        note=f"at most {largest / 1e6:,.0f} MB of memory",
    )
    columns = [
        TableColumn(title="Step"),
        TableColumn(title="State"),
        TableColumn(title="Time", format="seconds", has_bars=True),
        TableColumn(title="CPU time", format="seconds"),
        TableColumn(title="Peak memory", format="size", has_bars=True),
        TableColumn(title="Device"),
    ]
    rows = [_step(name, step) for name, step in steps.items()]
    blocks = [
        TableBlock(title="What each step took", columns=columns, rows=rows),
        *_remarks(summary),
        *_logs(artifacts),
    ]
    return Section(title="Steps", weight=STEPS_WEIGHT, highlights=[total] if largest else [], blocks=blocks)


def _step(name: str, step: Step) -> Row:
    has_failed = step.state == "failed"
    return Row(
        cells=[name, step.state, step.seconds, step.cpu_seconds, step.peak_memory_bytes, step.device or ""],
        tag="failed" if has_failed else "",
        tone="bad" if has_failed else "neutral",
    )


def _remarks(summary: Summary) -> Iterator[Block]:
    unmeasured = [
        name
        for name, step in summary.steps.items()
        if step.state in ("done", "reused") and step.cpu_seconds is None
    ]  # fmt: skip
    sentences = ["A bar compares a step with the largest one; less is better."]
    if unmeasured:
        sentences.append(f"No measurements arrived from {', '.join(unmeasured)}; shown is what the engine saw.")
    if any(step.state == "reused" for step in summary.steps.values()):
        sentences.append("A reused step did not run again; its figures are those of the attempt that ran it.")
    if summary.device == "cuda":
        on_cpu = ", ".join(name for name, step in summary.steps.items() if step.device == "cpu")
        sentences.append(f"CUDA was asked for. Computed on the CPU: {on_cpu or 'nothing'}.")
    yield Text(sentences=sentences, is_fine_print=True)
    if summary.ignored:
        yield FoldedBlocks(title="Requests that this engine ignored", blocks=[Text(sentences=summary.ignored)])


def _logs(artifacts: RunArtifacts) -> list[Block]:
    logs = {name: artifacts.step_record(artifact).get("log") for name, artifact in artifacts.steps.items()}
    links = [Link(name=name, uri=log) for name, log in logs.items() if log]
    return [Links(title="Logs", links=links)] if links else []


def _lineage(summary: Summary, artifacts: RunArtifacts) -> Section:
    versions = {"model version": summary.model_version, "champion version": summary.champion_version}
    values = {
        **{f"{name} (SHA-256)": value for name, value in summary.hashes if value},
        "code": summary.code_version,
        "data": summary.data,
        **{name: str(value) for name, value in versions.items() if value is not None},
        **({"libraries": ", ".join(libraries)} if (libraries := artifacts.libraries) else {}),
    }
    rows = [Row(cells=[name, value]) for name, value in values.items()]
    columns = [TableColumn(title="What"), TableColumn(title="Identity", format="code")]
    config = Code(title="", text=yaml.safe_dump(summary.config, sort_keys=False))
    blocks = [
        TableBlock(title="Made from", columns=columns, rows=rows),
        Links(title="Files", links=[Link(name=name, uri=uri) for name, uri in summary.links.items()]),
        FoldedBlocks(title="Config", blocks=[config]),
    ]
    return Section(title="Lineage", weight=LINEAGE_WEIGHT, outcome=_repeat(summary), blocks=blocks)


def _repeat(summary: Summary) -> SectionOutcome | None:
    """Return how a run compares with the earlier one that should have given the same."""
    repeat = summary.repeat
    if not repeat:
        return None
    label, tone = ("different", "bad") if repeat.differs else ("identical", "good")
    headline = f"Repeat of run {repeat.run}"
    return SectionOutcome(headline=headline, label=label, tone=tone, reasons=[f"{headline}.", *repeat.reasons])
