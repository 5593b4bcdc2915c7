"""A real browser for a test: Debian's Chromium without a window, and axe-core's judgment of its pages."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nightshift_testkit.processes import engine, started

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AXE = Path(".axe/package/axe.min.js")  # in the checkout; `make axe` downloads it
AFAR = (104, 56)  # pixels of a picture that is compared
NOTICED = 12  # difference of a color, of 255, that an eye notices
SEVERE = ("serious", "critical")


@contextmanager
def open_browser() -> "Iterator[Browser]":
    """Start a browser; without one the test is skipped."""
    program = shutil.which("chromium")
    require(program is not None, "Chromium is missing; apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # without a sandbox it runs as root too
        yield playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])


@contextmanager
def serve_pages(workspace: Path, *flags: str, **variables: str) -> Iterator[str]:
    """Start `nightshift ui` on a workspace, and yield the URL of its first page without the slash at its end."""
    command = engine("ui", "--workspace", str(workspace), "--port", "0", *flags)
    with started(command, stdout=subprocess.PIPE, text=True, env=os.environ | variables) as server, server.stdout:
        yield server.stdout.readline().split()[1].rstrip("/")


def find_barriers(page: "Page") -> list[str]:
    """Return what keeps people from using an open page, as far as axe-core sees it: serious and critical findings."""
    require(AXE.exists(), "axe-core is missing; run: make axe")
    page.evaluate(AXE.read_text())
    findings = page.evaluate("axe.run()")["violations"]
    return [
        f"{finding['id']}: {finding['help']}: {finding['nodes'][0]['html']}"
        for finding in findings
        if finding["impact"] in SEVERE
    ]


def compare_pictures(first: Path, second: Path) -> float:
    """Return the share of two pictures, 0 to 1, in which an eye from afar sees other blocks or colors."""
    from PIL import Image, ImageChops, ImageFilter

    afar = [
        Image.open(path).convert("RGB").resize(AFAR, Image.Resampling.BOX).filter(ImageFilter.GaussianBlur(2))
        for path in (first, second)
    ]
    differing = ImageChops.difference(*afar).convert("L").point(lambda value: 255 if value > NOTICED else 0)
    return differing.histogram()[255] / (AFAR[0] * AFAR[1])


def require(is_there: bool, message: str) -> None:
    """Skip the test where something is missing; CI has all of it."""
    if not is_there:
        assert "CI" not in os.environ, message
        pytest.skip(message)
