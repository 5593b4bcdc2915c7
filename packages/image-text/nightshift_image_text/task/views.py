"""What networks see of pairs: pixels and tokens, beside each other."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL

from nightshift.items import tokens
from nightshift.items.tokens import Tokenizer
from nightshift.tasks.classification.kinds import View
from nightshift_image_text import pixels
from nightshift_image_text.config import ImageTextTaskConfig

# part of every partition's key: raise it whenever the same pairs would give other pixels or tokens
SCHEMA = 1
PIXELS, TOKENS = "pixels", "tokens"


def view(task: ImageTextTaskConfig) -> View:
    """Return what networks see of pairs: `pixels` uint8 (side, side, channels) and `tokens` int32 (length,) of each.

    The same image is known again, whatever its report; reports stay beside the rows, for those who find them.

    Raises:
        UserError: when the tokenizer cannot be read.
    """
    tokenizer = tokens.load_tokenizer(task)
    dtype = [(PIXELS, np.uint8, (task.side, task.side, task.channels)), (TOKENS, np.int32, (task.length,))]
    decided_by = [SCHEMA, PIL.__version__, task.side, task.channels, *tokenizer.key, task.length]
    see = partial(_see, task, tokenizer)
    return View(("image", "report"), see, np.empty(0, dtype), decided_by, known_by=PIXELS, kept=("report",))


def _see(
    task: ImageTextTaskConfig, tokenizer: Tokenizer, images: Sequence[bytes], reports: Sequence[str]
) -> npt.NDArray[Any]:
    seen = np.empty(len(images), view(task).empty.dtype)
    seen[PIXELS] = [pixels.prepare(image, task) for image in images]
    seen[TOKENS] = tokens.encode_texts(tokenizer, task.length, reports)
    return seen
