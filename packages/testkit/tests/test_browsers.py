"""The judge of pages names what keeps people out."""

import pytest

from nightshift_testkit.browsers import find_barriers, open_browser


@pytest.mark.slow
def test_an_image_without_a_text_and_a_pale_link_are_named() -> None:
    with open_browser() as browser:
        page = browser.new_page()
        page.set_content('<html lang="en"><title>T</title><main><img src="x"><a href="/" style="color:#ddd">Go</a>')

        rules = [barrier.partition(":")[0] for barrier in find_barriers(page)]

    assert rules == ["color-contrast", "image-alt"]
