"""Take the pictures of reports and of the UI that README and docs show: `make screenshots`."""

import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from PIL import Image

from nightshift_testkit.browsers import open_browser, serve_pages
from nightshift_testkit.week import CARD, write_week

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = Path(__file__).parent / "images"
DATE = "2025-06-30"
COMMAND = [sys.executable, "-m", "pipelines.cli"]
# pipeline -> picture of its report, and the height in pixels of what fits on the first screen
REPORTS = {"training": ("report", 880), "monitoring": ("monitoring", 660)}
# picture of a page of the UI -> its URL and height
PAGES = {
    "ui": ("/", 560),
    "ui-models": ("/models/fraud", 560),
    "ui-drift": ("/drift/fraud", 660),
    "ui-events": (f"/events/fraud?column=customer&id={CARD}", 560),
}
SCHEMES: dict[Literal["light", "dark"], str] = {"light": "", "dark": "-dark"}  # and how their pictures' names end
WIDTH = 1040
COLORS = 64  # of a picture: enough for text and charts, and a third of the bytes


def run(pipeline: str, workspace: Path) -> Path:
    """Run a pipeline of the use case `fraud`, and return its report."""
    command = [*COMMAND, "run", pipeline, "--date", DATE, "--workspace", str(workspace)]
    subprocess.run(command, check=True)
    return (workspace / "runs" / "latest" / "report.html").resolve()


def take_picture(page: "Page", url: str, picture: Path, height: int) -> None:
    """Write the first screen of a page as a PNG file."""
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.goto(url)
    Image.open(BytesIO(page.screenshot())).convert("RGB").quantize(COLORS).save(picture, optimize=True)


def take_pages(browser: "Browser", workspace: Path, folder: Path) -> None:
    """Write the pictures of the UI's pages, light and dark, of a week of nights that is written into a workspace."""
    write_week(workspace)
    with serve_pages(workspace) as url:
        for scheme, ending in SCHEMES.items():
            page = browser.new_page(color_scheme=scheme)
            for name, (path, height) in PAGES.items():
                take_picture(page, f"{url}{path}", folder / f"{name}{ending}.png", height)


def main(workspace: Path) -> None:
    """Run the pipelines and take a picture of each report, then of the UI."""
    reports = {name: (run(pipeline, workspace).as_uri(), height) for pipeline, (name, height) in REPORTS.items()}
    subprocess.run([*COMMAND, "stop", "--workspace", str(workspace)], check=True)
    with open_browser() as browser:
        for name, (url, height) in reports.items():
            take_picture(browser.new_page(color_scheme="light"), url, IMAGES / f"{name}.png", height)
        take_pages(browser, workspace / "week", IMAGES)


if __name__ == "__main__":
    os.environ["CI"] = "1"  # a missing browser is an error here
    main(Path(sys.argv[1]).resolve())
