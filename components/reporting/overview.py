"""The summary on one screen, in Markdown: what Kubeflow's page shows of a run."""

from collections.abc import Iterator

from components.common.markdown import table
from components.reporting.summary import Summary

NOTHING = "-"


def render(summary: Summary) -> str:
    """Write the overview of a run: the verdicts, the models' metrics on the test days, what the steps took."""
    paragraphs = [
        [f"# {summary.run}: {summary.status}"],
        [f"Logical date {summary.logical_date}, on {summary.device}, code {summary.code_version}."],
        ["## Verdicts", "", *(_verdicts(summary) or ["None was reached."])],
        ["## Models", "", *_models(summary)],
        ["## Steps", "", *_steps(summary)],
    ]
    return "\n\n".join("\n".join(lines) for lines in paragraphs) + "\n"


def _verdicts(summary: Summary) -> list[str]:
    found = summary.verdicts
    decided = {
        "Evaluation": found.evaluation and (found.evaluation.decision, found.evaluation.reasons),
        "Drift": found.drift and (found.drift.decision, found.drift.reasons),
        "Deployment": found.deployment and (found.deployment.decision, found.deployment.reasons),
    }
    return [f"- {name}: **{told[0]}**. {' '.join(told[1])}" for name, told in decided.items() if told]


def _models(summary: Summary) -> list[str]:
    if not summary.models:
        return ["None was measured."]
    names = tuple(next(iter(summary.models.values())))
    cells = (
        (f"**{model}**" if model == summary.selected else model, *(_number(scores[name]) for name in names))
        for model, scores in summary.models.items()
    )
    return table(("Model", *(name.replace("_", " ") for name in names)), cells)


def _steps(summary: Summary) -> list[str]:
    def cells() -> Iterator[tuple[str, ...]]:
        for name, step in summary.steps.items():
            memory = None if step.peak_memory_bytes is None else step.peak_memory_bytes / 1e6
            yield name, step.state, _number(step.seconds, 1), _number(memory, 0)

    return table(("Step", "State", "Seconds", "Peak MB"), cells())


def _number(value: float | None, digits: int = 3) -> str:
    return NOTHING if value is None else f"{value:,.{digits}f}"
