"""The page of a run as one HTML file that needs nothing else."""

from functools import partial
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment

from components.reporting.summary import Summary
from nightshift.contracts.section import Page, Section
from nightshift.drawing import REASONS, Location, make_environment


def render(page: Page, summary: Summary, folder: str) -> str:
    """Return the HTML.

    Args:
        page: what to show.
        summary: says when and where the run was.
        folder: URI of the folder the page will lie in; what lies below it is linked.
    """
    failed = {name: step.error for name, step in summary.steps.items() if step.state == "failed"}
    return (
        _environment(folder)
        .get_template("report.html.j2")
        .render(page=page, summary=summary, failed=failed, most=REASONS)
    )


def alone(section: Section, folder: str) -> str:
    """Return the HTML of one section that belongs to no run.

    Args:
        section: what to show.
        folder: URI of the folder the page will lie in; what lies below it is linked.
    """
    return _environment(folder).get_template("section.html.j2").render(section=section, most=REASONS)


def locate(uri: str, folder: str) -> Location:
    """Locate a URI from a page in a folder."""
    path, root = _resolve(uri), _resolve(folder)
    below = path.removeprefix(f"{root}/")
    return Location(uri, None if below == path else quote(below))


def _environment(folder: str) -> Environment:
    return make_environment("components.reporting", partial(locate, folder=folder))


def _resolve(uri: str) -> str:
    return uri.rstrip("/") if "://" in uri else str(Path(uri).resolve())
