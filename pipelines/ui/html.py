"""Screens as HTML, by the templates that draw reports."""

from functools import cache
from typing import Any

from jinja2 import Template
from markupsafe import Markup

from nightshift.drawing import REASONS, Location, make_environment
from nightshift.runtime.printable import printable_lines
from pipelines.ui.access import Session
from pipelines.ui.pages import list_pages
from pipelines.ui.screen import REASON_LENGTH, PageLink, Screen


def render(screen: Screen, session: Session | None = None, has_login: bool = False) -> str:
    """Return the HTML of a screen.

    Args:
        screen: the page.
        session: of a person who may act; None of one who may only read.
        has_login: whether a person can log in.
    """
    forms = [form for form in screen.forms if session or not form.needs_session]
    common = {"menu": _menu(), "most": REASONS, "longest": REASON_LENGTH}
    return _template().render(screen=screen, forms=forms, session=session, has_login=has_login, **common)


@cache
def _menu() -> list[PageLink]:
    return [PageLink(page.menu, page.path) for page in list_pages() if page.menu]


@cache
def _template() -> Template:
    # a file of a run is named, not linked: only pages are served
    environment = make_environment("pipelines.ui", lambda uri: Location(uri, None))
    environment.finalize = _write
    return environment.get_template("screen.html.j2")


def _write(value: Any) -> Any:
    """Return a text with escapes for what hides or turns it; markup of our own as it is."""
    return printable_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value
