"""The tasks of a person that the benchmark times can be done: by clicks in a real browser, and by commands."""

from pathlib import Path
from urllib.parse import quote

import pytest

from benchmarks.ui_tasks import ACTIONS, PASS, TASKS, browse, write_gateway
from nightshift_testkit.browsers import open_browser, serve_pages
from nightshift_testkit.week import write_week
from pipelines.ui import TOKEN


@pytest.mark.slow
def test_every_task_is_done_in_the_pages_with_few_clicks(tmp_path: Path) -> None:
    write_week(tmp_path)
    environment = write_gateway(tmp_path) | {TOKEN: PASS}
    with serve_pages(tmp_path, "--allow", **environment) as url, open_browser() as browser:
        page = browser.new_page()
        page.goto(f"{url}/login?token={quote(PASS)}")
        clicks = {name: browse(page, url, task)[0] for name, task in (TASKS | ACTIONS).items()}

    assert {name: number for name, number in clicks.items() if number > 6} == {}
