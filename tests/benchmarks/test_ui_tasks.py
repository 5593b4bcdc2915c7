"""The tasks of a person that the benchmark times can be done: by clicks in a real browser, and by commands."""

from pathlib import Path

import pytest

from benchmarks.ui_tasks import TASKS, browse, write_gateway
from nightshift_testkit.browsers import open_browser, serve_pages
from nightshift_testkit.week import write_week


@pytest.mark.slow
def test_every_task_is_done_in_the_pages_with_few_clicks(tmp_path: Path) -> None:
    write_week(tmp_path)
    with serve_pages(tmp_path, **write_gateway(tmp_path)) as url, open_browser() as browser:
        page = browser.new_page()
        clicks = {name: browse(page, url, task)[0] for name, task in TASKS.items()}

    assert {name: number for name, number in clicks.items() if number > 6} == {}
