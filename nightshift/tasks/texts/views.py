"""What networks see of texts: numbers of tokens."""

from functools import partial

import numpy as np

from nightshift.config.texts import TextTaskConfig
from nightshift.items import tokens
from nightshift.tasks.classification.kinds import View


def view(task: TextTaskConfig) -> View:
    """Return what networks see of texts, int32 (n, length), shorter ones filled up.

    Raises:
        UserError: when the tokenizer cannot be read.
    """
    tokenizer = tokens.load_tokenizer(task)
    empty = np.empty((0, task.length), np.int32)
    return View(("text",), partial(tokens.encode_texts, tokenizer, task.length), empty, [*tokenizer.key, task.length])
