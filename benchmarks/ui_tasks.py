"""Tasks of a person: clicks and seconds in the pages of `nightshift ui`, beside commands and theirs.

    RECORD=1 python -m benchmarks.ui_tasks

A real browser starts each task on the first page, follows links as a person does, and ends it when the answer can be
seen. The workspace is a week of one use case's nights (`nightshift_testkit.week`). Seconds are the machine's: a person
reads and types besides.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe
from statistics import median
from typing import TYPE_CHECKING
from urllib.parse import quote

from benchmarks import figures
from nightshift_llm.gateway import ledger_file
from nightshift_llm.pages import KEYS, LEDGER
from nightshift_testkit.browsers import open_browser, serve_pages
from nightshift_testkit.processes import engine
from nightshift_testkit.week import CARD, DAYS, REASON, REFUSED, WAITING, write_week
from pipelines.ui import TOKEN

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROUNDS = 3
REFUSED_RUN = f"fraud-training-{DAYS[-1]}-20261129T020000000000"
EVENT = "2750"
BECAUSE = "The shop has agreed"
PASS = token_urlsafe()
KEY = "search"
USED, ALLOWED = 900_000, 1_000_000  # tokens of a day


class Visit:
    """A person in front of the pages: what they click on, and how often."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.clicks = 0

    def follow(self, *links: str) -> None:
        """Click on links, one after the other."""
        for link in links:
            self.page.get_by_role("link", name=link, exact=True).first.click()
            self.clicks += 1

    def choose(self, label: str, option: str) -> None:
        """Choose an option of a field."""
        self.page.get_by_role("combobox", name=label).select_option(option)
        self.clicks += 1

    def write(self, label: str, text: str) -> None:
        """Click into a field and write into it."""
        self.page.get_by_role("textbox", name=label).fill(text)
        self.clicks += 1

    def press(self, button: str) -> None:
        """Press a button."""
        self.page.get_by_role("button", name=button, exact=True).click()
        self.clicks += 1

    def act(self, form: str, reason: str) -> None:
        """Give a form its reason and send it."""
        fields = self.page.get_by_role("form", name=form, exact=True)
        fields.get_by_role("textbox", name="Reason").fill(reason)
        fields.get_by_role("button").click()
        self.clicks += 2

    def wait_for(self, answer: str) -> None:
        """Wait until the answer can be seen."""
        self.page.get_by_text(re.compile(answer)).first.wait_for()


@dataclass(frozen=True)
class PersonTask:
    """A question of a person.

    Attributes:
        answer: regular expression of the text that answers it on a page.
        browse: how it is reached from the first page.
        commands: that answer it, with what follows `nightshift`, or a whole command line of Python.
    """

    answer: str
    browse: Callable[[Visit], None]
    commands: Sequence[Sequence[str]]


def find_events(visit: Visit) -> None:
    """Search the events of a customer."""
    visit.follow("fraud", "Events")
    visit.write("Id", CARD)
    visit.press("Find")


def look_at_event(visit: Visit) -> None:
    """Open an event."""
    visit.follow("fraud", "Events")
    visit.choose("Column", "event_id")
    visit.write("Id", EVENT)
    visit.press("Find")
    visit.follow(EVENT)


TASKS = {
    "Which nights failed this week?": PersonTask(
        f"fraud · {DAYS[2]} · scoring failed in ingestion", lambda _: None, [["runs", "--unfinished"]]
    ),
    f"Why was version {REFUSED} refused?": PersonTask(
        REASON, lambda visit: visit.follow("Models", "fraud", str(REFUSED)), [["runs"], ["show", REFUSED_RUN]]
    ),
    f"What was live on {DAYS[3]}?": PersonTask(
        f"{DAYS[3]} 02:25", lambda visit: visit.follow("Models", "fraud"), [["release", "status"]]
    ),
    "Which input drifted first?": PersonTask(f"{DAYS[3]}", lambda visit: visit.follow("fraud", "Drift"), [["drift"]]),
    "What did a scored event look like?": PersonTask(
        "customer_count_7d", look_at_event, [["events", EVENT, "--column", "event_id", "--features"]]
    ),
    "What did last month cost?": PersonTask(r"13\.01", lambda visit: visit.follow("Costs"), [["costs"]]),
    "What happened to a customer?": PersonTask("56 events", find_events, [["events", CARD]]),
    "Is the gateway near a budget?": PersonTask(
        f"{KEY} has used 90%",
        lambda visit: visit.follow("Gateway"),
        [["-m", "nightshift_llm.gateway.report", "--ledger", "ledger.db"]],
    ),
}

WAITS = f"fraud · version {WAITING} waits for an approval"


def approve(visit: Visit) -> None:
    """Approve the version that waits."""
    visit.follow(WAITS)
    visit.act(f"Approve version {WAITING}", BECAUSE)


def roll_back(visit: Visit) -> None:
    """Restore the champion before."""
    visit.follow("fraud", "Releases")
    visit.act("Roll back", BECAUSE)


# what changes the workspace is done once, in this order
ACTIONS = {
    f"Approve version {WAITING}.": PersonTask(
        "Champion, live since", approve, [["approve", str(WAITING), "--reason", BECAUSE]]
    ),
    "Roll back.": PersonTask("Rolled back,", roll_back, [["rollback", "--reason", BECAUSE]]),
}


def write_gateway(folder: Path) -> dict[str, str]:
    """Write a gateway's ledger and keys into a folder; return the environment that names them."""
    ledger, keys = folder / "ledger.db", folder / "keys.yaml"
    with closing(ledger_file.open_file(str(ledger))) as database:
        database.execute(ledger_file.CHARGE, (KEY, "6", (DAYS[-1] - date(1970, 1, 1)).days, 120, USED, 0, 0, 0))
    keys.write_text(f"- {{name: {KEY}, sha256: {sha256(b'key').hexdigest()}, tokens_per_day: {ALLOWED}}}\n")
    return {LEDGER: str(ledger), KEYS: str(keys)}


def browse(page: "Page", url: str, task: PersonTask) -> tuple[int, float]:
    """Do a task in the pages; return its clicks, and the seconds from the first page to the answer."""
    visit, began = Visit(page), time.perf_counter()
    page.goto(url)
    task.browse(visit)
    visit.wait_for(task.answer)
    return visit.clicks, time.perf_counter() - began


def run_commands(folder: Path, task: PersonTask, environment: Mapping[str, str]) -> float:
    """Run the commands of a task; return their seconds."""
    began = time.perf_counter()
    for words in task.commands:
        is_module = words[0] == "-m"
        command = [sys.executable, *words] if is_module else engine(*words, "--workspace", str(folder))
        subprocess.run(command, check=True, capture_output=True, cwd=folder, env=os.environ | environment)
    return time.perf_counter() - began


def measure(folder: Path) -> list[figures.Row]:
    """Do every task both ways; return a row a task."""
    by_pages, by_commands = folder / "pages", folder / "commands"
    for workspace in (by_pages, by_commands):
        write_week(workspace)
        environment = write_gateway(workspace)
    environment[TOKEN] = PASS
    rounds = dict.fromkeys(TASKS, ROUNDS) | dict.fromkeys(ACTIONS, 1)
    rows: list[figures.Row] = []
    with serve_pages(by_pages, "--allow", **environment) as url, open_browser() as browser:
        page = browser.new_page()
        page.goto(f"{url}/login?token={quote(PASS)}")
        for name, task in (TASKS | ACTIONS).items():
            visits = [browse(page, url, task) for _ in range(rounds[name])]
            seconds = median(run_commands(by_commands, task, environment) for _ in range(rounds[name]))
            rows.append({"task": name, "clicks": visits[0][0], "pages, seconds": median(took for _, took in visits),
                         "commands": len(task.commands), "commands, seconds": seconds})  # fmt: skip
    return rows


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder))
    note = f"Median of {ROUNDS}, of what changes the workspace once. The machine's seconds, without reading and typing."
    figures.publish("ui-tasks", rows, note)


if __name__ == "__main__":
    main()
