"""What networks see of texts: numbers of tokens."""

from functools import partial

import numpy as np

from nightshift.classification import tokens
from nightshift.config.texts import Texts
from nightshift.tasks.classification.kinds import View


def view(task: Texts) -> View:
    """Return what networks see of texts, int32 (n, length), shorter ones filled up.

    Raises:
        UserError: when the tokenizer cannot be read.
    """
    tokenizer = tokens.named(task)
    empty = np.empty((0, task.length), np.int32)
    return View("text", partial(tokens.encoded, tokenizer, task.length), empty, [*tokenizer.key, task.length])
