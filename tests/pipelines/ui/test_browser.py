"""`nightshift ui` in a real browser: what assistive technology and a keyboard meet on every page."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from nightshift_testkit.browsers import find_barriers, open_browser, serve_pages
from tests.pipelines.ui.conftest import list_urls, wait_for_approval, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
TOKEN = "0123456789abcdef"
PHONE = 360  # pixels
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
# what a tab stops at, in the order of the document
STOPS = "[...document.querySelectorAll('a[href], button, select, input:not([type=hidden]), summary, [tabindex=\"0\"]')]"
FOCUSED = f"""() => {{
  const style = getComputedStyle(document.activeElement);
  return [{STOPS}.indexOf(document.activeElement), style.outlineStyle !== "none" && style.outlineWidth !== "0px"];
}}"""


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with open_browser() as chromium:
        yield chromium


@pytest.fixture
def page(browser: "Browser", full: Path) -> "Iterator[Page]":
    # of a person who may act: what others see is a part of it
    wait_for_approval(full)
    with (
        serve_pages(full, "--allow", NIGHTSHIFT_UI_TOKEN=TOKEN) as url,
        browser.new_context(base_url=url) as context,
    ):
        page = context.new_page()
        page.goto(f"/login?token={TOKEN}")
        yield page


def test_no_page_keeps_anybody_out_in_light_or_dark(page: "Page") -> None:
    barriers = {}
    for url in list_urls().values():
        page.goto(url)
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            barriers[url, scheme] = find_barriers(page)

    assert {where: findings for where, findings in barriers.items() if findings} == {}


def test_every_link_and_form_is_reached_by_the_tab_key_and_shows_its_focus(page: "Page") -> None:
    for url in list_urls().values():
        page.goto(url)
        stops = page.evaluate(f"() => {STOPS}.length")
        focused = []
        for _ in range(stops):
            page.keyboard.press("Tab")
            focused.append(page.evaluate(FOCUSED))

        assert focused == [[number, True] for number in range(stops)], url


def test_no_page_is_wider_than_a_phone(page: "Page", full: Path) -> None:
    write_run(full, f"fraud-{'9' * 150}")
    page.set_viewport_size({"width": PHONE, "height": 700})
    widths = {}
    for url in list_urls().values():
        page.goto(url)
        widths[url] = page.evaluate("document.documentElement.scrollWidth")

    assert widths == dict.fromkeys(widths, PHONE)
