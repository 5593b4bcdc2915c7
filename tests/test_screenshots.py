"""The pictures of the UI that the docs show are those of its pages now."""

from pathlib import Path

import pytest

from docs.screenshots import IMAGES, PAGES, SCHEMES, take_pages
from nightshift_testkit.browsers import compare_pictures, open_browser

NOTICEABLE = 0.03  # share of a picture; fonts of another system differ by less, another page by twice as much


@pytest.mark.slow
def test_a_page_that_has_changed_gets_a_new_picture(tmp_path: Path) -> None:
    with open_browser() as browser:
        take_pages(browser, tmp_path / "week", tmp_path)

    names = [f"{name}{ending}.png" for name in PAGES for ending in SCHEMES.values()]
    changed = {name: compare_pictures(tmp_path / name, IMAGES / name) for name in names}
    assert {name: share for name, share in changed.items() if share > NOTICEABLE} == {}, "run: make screenshots"


def test_pictures_of_different_pages_differ_noticeably() -> None:
    light = [IMAGES / f"{name}.png" for name in PAGES]

    assert min(compare_pictures(first, second) for first in light for second in light if first < second) > NOTICEABLE
