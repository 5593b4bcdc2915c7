"""Words in images as tesseract reads them, a process of Debian's package tesseract-ocr."""

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from nightshift_image_text.deidentification.corpus.scans import Line, Pixels

SCALE = 3  # letters of 8 pixels are too small for it
BORDER = 8  # pixels around a line
ALIKE = 0.6  # share of a word's characters that are read in one piece: then it is recognized
LEAST = 3  # characters of a word that counts, and of a piece


def cut_line(pixels: Pixels, line: Line) -> Image.Image:
    """Return the part of a scan around a line as is best read: enlarged, dark on light."""
    left, top, right, bottom = line.box
    part = pixels[max(top - BORDER, 0) : bottom + BORDER, max(left - BORDER, 0) : right + BORDER].astype(float)
    levels = 255 * (part - part.min()) / max(float(np.ptp(part)), 1)
    image = Image.fromarray(levels.astype(np.uint8))
    image = ImageOps.invert(image) if np.median(levels) < 128 else image
    return image.resize((image.width * SCALE, image.height * SCALE), Image.Resampling.LANCZOS)


def read(images: Sequence[Image.Image]) -> list[str]:
    """Return the one line of text in each image."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.png" for number in range(len(images))]
        for file, image in zip(files, images, strict=True):
            image.save(file)
        names = Path(folder) / "names.txt"
        names.write_text("\n".join(map(str, files)))
        command = ["tesseract", str(names), "stdout", "--psm", "7", "-c", "page_separator=\f"]
        environment = os.environ | {"OMP_THREAD_LIMIT": "1"}
        pages = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split("\f")
    return pages[: len(images)]


def list_words(line: Line) -> list[str]:
    """Return the words of a line that count: letters and digits, in lower case."""
    words = (re.sub(r"[^a-z0-9]", "", word.lower()) for word in re.split(r"[\s^]", line.text))
    return [word for word in words if len(word) >= LEAST]


def is_read(word: str, text: str) -> bool:
    """Tell whether most of a word stands in a text that was read, in one piece."""
    seen = re.sub(r"[^a-z0-9]", "", text.lower())
    match = SequenceMatcher(None, word, seen, autojunk=False).find_longest_match()
    return match.size >= max(LEAST, ALIKE * len(word))
