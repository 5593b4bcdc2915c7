"""What networks see of images: pixels, decoded and resized."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import PIL

from nightshift.config.images import ImageTaskConfig
from nightshift.items import images
from nightshift.items.images import Pixels
from nightshift.tasks.classification.kinds import View

# part of every partition's key: raise it whenever the same images would give other pixels
SCHEMA = 1


def view(task: ImageTaskConfig) -> View:
    """Return what networks see of image files, uint8 (n, side, side, channels)."""
    empty = np.empty((0, task.side, task.side, task.channels), np.uint8)
    made_of = [SCHEMA, PIL.__version__, task.side, task.channels]
    return View(("image",), partial(_pixels, task), empty, made_of)


def _pixels(task: ImageTaskConfig, contents: Sequence[bytes]) -> Pixels:
    return np.stack([images.prepare_pixels(content, task) for content in contents])
