"""Take the pictures of reports and of the UI that README and docs show: `make screenshots`."""

import subprocess
import sys
from pathlib import Path

IMAGES = Path(__file__).parent / "images"
DATE = "2025-06-30"
COMMAND = [sys.executable, "-m", "pipelines.cli"]
# pipeline -> picture of its report, and the height in pixels of what fits on the first screen
PICTURES = {"training": ("report.png", 880), "monitoring": ("monitoring.png", 660)}
# picture of the UI's first page -> the browser's flags
HOME = {"ui.png": [], "ui-dark.png": ["--blink-settings=preferredColorScheme=0"]}
HOME_HEIGHT = 560
WIDTH = 1040
# without a sandbox it runs as root too; it has nothing to fetch
BROWSER = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars")


def run(pipeline: str, workspace: Path) -> Path:
    """Run a pipeline of the use case `fraud`, and return its report."""
    command = [*COMMAND, "run", pipeline, "--date", DATE, "--workspace", str(workspace)]
    subprocess.run(command, check=True)
    return (workspace / "runs" / "latest" / "report.html").resolve()


def take_picture(browser: str, url: str, picture: Path, height: int, *more: str) -> None:
    """Write the first screen of a page as a PNG file."""
    flags = [*BROWSER, *more, f"--window-size={WIDTH},{height}", f"--screenshot={picture}"]
    subprocess.run([browser, *flags, url], check=True)


def take_home(browser: str, workspace: Path) -> None:
    """Take the pictures of the UI's first page, light and dark."""
    command = [*COMMAND, "ui", "--workspace", str(workspace), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = server.stdout.readline().split()[1] if server.stdout else ""
            for name, flags in HOME.items():
                take_picture(browser, url, IMAGES / name, HOME_HEIGHT, *flags)
        finally:
            server.terminate()


def main(browser: str, workspace: Path) -> None:
    """Run the pipelines and take a picture of each report, then of the UI."""
    for pipeline, (name, height) in PICTURES.items():
        take_picture(browser, run(pipeline, workspace).as_uri(), IMAGES / name, height)
    empty = [*COMMAND, "run", "scoring", "--date", DATE, "--data", str(workspace), "--workspace", str(workspace)]
    subprocess.run(empty, check=False)  # so that something needs a person
    take_home(browser, workspace)
    subprocess.run([*COMMAND, "stop", "--workspace", str(workspace)], check=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve())
