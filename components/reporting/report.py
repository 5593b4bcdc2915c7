"""The report as one HTML page that needs nothing else: made from the summary and what that leaves out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self
from urllib.parse import quote

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from components.reporting import plots
from components.reporting.core import SCORES, Found, Json, named_scores
from components.reporting.formats import FILTERS
from components.reporting.summary import Step, Summary, score_names

Tone = Literal["good", "neutral", "bad"]

TITLES: dict[str, tuple[Tone, str]] = {
    "promoted": ("good", "Version {new} promoted"),
    "kept": ("neutral", "Champion version {champion} kept"),
    "registered": ("neutral", "Version {new} registered, not promoted"),
}
EFFECTS = ("psi", "wasserstein")
HEADROOM = 1.25  # of a limit, so that its mark never lies on the edge of the bar


@dataclass(frozen=True)
class Headline:
    """What a reader has to know, in a line, and why."""

    tone: Tone
    title: str
    reasons: list[str]


@dataclass(frozen=True)
class Link:
    """Something to look at; its href is relative, None when it does not lie below the report."""

    name: str
    uri: str
    href: str | None

    @classmethod
    def to(cls, name: str, uri: str, folder: str) -> Self:
        """Link to a URI from a page in a folder."""
        place, root = _resolved(uri), _resolved(folder)
        below = place.removeprefix(f"{root}/")
        return cls(name, uri, None if below == place else quote(below))


@dataclass(frozen=True)
class Measure:
    """One figure of the drift table: the value, the length of its bar and where its limit lies, both 0 to 1."""

    value: float | None
    length: float
    limit: float


def render(summary: Summary, found: Found, folder: str) -> str:
    """Return the report.

    Args:
        summary: the figures to show.
        found: curves, drifted columns, operations and logs, which the summary leaves out.
        folder: URI of the folder the page will lie in; what lies below it is linked.
    """
    environment = Environment(
        loader=PackageLoader("components.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    values = _outcome(summary, found) | _models(summary, found) | _places(summary, found, folder)
    return environment.get_template("report.html.j2").render(summary=summary, **values)


def headline(summary: Summary) -> Headline:
    """Say what became of the run."""
    deployment = summary.verdicts.deployment
    if summary.status == "failed" or deployment is None:
        return _failure(summary)
    tone, title = TITLES[deployment.decision]
    return Headline(
        tone, title.format(new=summary.model_version, champion=summary.champion_version), deployment.reasons
    )


def _failure(summary: Summary) -> Headline:
    failed = [name for name, step in summary.steps.items() if step.state == "failed"]
    skipped = [name for name, step in summary.steps.items() if step.state == "skipped"]
    title = f"The run failed in {' and '.join(failed)}" if failed else "The run is incomplete"
    return Headline("bad", title, [f"No result of {', '.join(skipped)}."] if skipped else [])


def _outcome(summary: Summary, found: Found) -> Json:
    steps = summary.steps
    return {
        "headline": headline(summary),
        "windows": _windows(summary, found),
        "steps_total": sum(step.seconds or 0 for step in steps.values()),
        "longest": max(step.seconds or 0 for step in steps.values()),
        "largest": max(step.peak_memory_bytes or 0 for step in steps.values()),
        "unmeasured": [name for name, step in steps.items() if _unmeasured(step)],
        "libraries": _libraries(found),
        "config": yaml.safe_dump(summary.config, sort_keys=False),
    }


def _models(summary: Summary, found: Found) -> Json:
    names = score_names(summary.config["evaluation"]["top_k"])
    champion = found.file("evaluation").get("champion")
    return {
        "names": names,
        "top_k": summary.config["evaluation"]["top_k"],
        "ranked": sorted(summary.models.items(), key=lambda item: -(item[1]["average_precision"] or 0)),
        "candidates": found.file("model").get("candidates", {}),
        "why_selected": found.details("model").get("reason"),
        "intervals": _intervals(found, names),
        "cost": found.file("evaluation").get("cost"),
        "champion": champion and {"version": champion["version"], "scores": named_scores(champion["metrics"], names)},
        "plots": _plots(summary, found),
        "notes": found.file("evaluation").get("notes", []),
        "effects": effects(found.file("drift").get("columns", []), summary.config["drift"]),
        "compared": found.file("drift"),
        "operations": found.file("profile").get("top_operations", []),
    }


def _places(summary: Summary, found: Found, folder: str) -> Json:
    logs = {name: found.recorded(name).get("log") for name in summary.steps}
    parts = found.file("events").get("partitions", [])
    spoiled = {part["date"]: part["details"].get("quarantine_uri") for part in parts}
    return {
        "links": [Link.to(name, uri, folder) for name, uri in summary.links.items()],
        "logs": {name: Link.to("log", log, folder) for name, log in logs.items() if log},
        "quarantine_files": [Link.to(day, uri, folder) for day, uri in spoiled.items() if uri],
    }


def _windows(summary: Summary, found: Found) -> list[Json]:
    counts = found.details("model") | {"test": found.file("evaluation").get("test", {})}
    return [
        {"rows": None, "positives": None} | counts.get(name, {}) | {"name": name, "days": days}
        for name, days in summary.windows
    ]


def _intervals(found: Found, names: tuple[str, ...]) -> Json:
    """Return the 95 % intervals of the selected candidate, those of its metrics under the summary's names."""
    intervals: Json = found.file("evaluation").get("intervals", {})
    return intervals | {name: intervals.get(score) for name, score in zip(names, SCORES, strict=True)}


def _plots(summary: Summary, found: Found) -> dict[str, plots.Plot]:
    curves = found.file("evaluation").get("curves")
    if not curves:
        return {}
    positive_share = (summary.rows.test_positives or 0) / (summary.rows.test or 1)
    return {
        "Precision over recall": plots.precision_recall(curves["precision_recall"], positive_share),
        "Calibration": plots.calibration(curves["calibration"]),
    }


def effects(columns: list[Json], limits: Json) -> list[Json]:
    """Return the columns of the drift table, the largest effect (in units of its limit) first.

    Args:
        columns: of the drift verdict.
        limits: the config's limits, `psi` and `wasserstein`.
    """
    wholes = {kind: max([HEADROOM * limits[kind], *(column[kind] or 0 for column in columns)]) for kind in EFFECTS}
    ordered = sorted(columns, key=lambda column: -max((column[kind] or 0) / limits[kind] for kind in EFFECTS))
    return [
        column
        | {
            kind: Measure(column[kind], (column[kind] or 0) / whole, limits[kind] / whole)
            for kind, whole in wholes.items()
        }
        for column in ordered
    ]


def _unmeasured(step: Step) -> bool:
    return step.state in ("done", "reused") and step.cpu_seconds is None


def _libraries(found: Found) -> list[str]:
    """Return the versions that the steps reported, each once."""
    reported = [text for measure in found.measures.values() for text in measure.get("libraries", "").split(", ")]
    return sorted({text for text in reported if text})


def _resolved(uri: str) -> str:
    return uri.rstrip("/") if "://" in uri else str(Path(uri).resolve())
