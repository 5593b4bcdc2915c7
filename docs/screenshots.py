"""Take the pictures of reports that README and docs show: `make screenshots`."""

import subprocess
import sys
from pathlib import Path

IMAGES = Path(__file__).parent / "images"
DATE = "2025-06-30"
# pipeline -> picture of its report, and the height in pixels of what fits on the first screen
PICTURES = {"training": ("report.png", 880), "monitoring": ("monitoring.png", 660)}
WIDTH = 1040
# without a sandbox it runs as root too; it has nothing to fetch
BROWSER = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars")


def run(pipeline: str, workspace: Path) -> Path:
    """Run a pipeline of the use case `fraud`, and return its report."""
    command = [sys.executable, "-m", "pipelines.cli", "run", pipeline, "--date", DATE, "--workspace", str(workspace)]
    subprocess.run(command, check=True)
    return (workspace / "runs" / "latest" / "report.html").resolve()


def take_picture(browser: str, page: Path, picture: Path, height: int) -> None:
    """Write the first screen of a page as a PNG file."""
    flags = [*BROWSER, f"--window-size={WIDTH},{height}", f"--screenshot={picture}"]
    subprocess.run([browser, *flags, page.as_uri()], check=True)


def main(browser: str, workspace: Path) -> None:
    """Run the pipelines and take a picture of each report."""
    for pipeline, (name, height) in PICTURES.items():
        take_picture(browser, run(pipeline, workspace), IMAGES / name, height)
    subprocess.run([sys.executable, "-m", "pipelines.cli", "stop", "--workspace", str(workspace)], check=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve())
