"""The rules for images: which files can be trained on as they are meant."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import PIL

from nightshift.config.images import ImageConfig, ImageTaskConfig
from nightshift.items import images
from nightshift.items.images import UnusableError
from nightshift.tasks.base import ingestion as base

if TYPE_CHECKING:
    import pandas as pd


class IngestionTask(base.IngestionTask):
    """The rules for image files."""

    def faults(self, typed: "pd.DataFrame", config: ImageConfig) -> "pd.Series":
        return find_faults(typed["image"], config.task)

    def near_duplicates(self, contents: "pd.Series", config: ImageConfig) -> npt.NDArray[np.bool_]:
        task = config.task
        return np.zeros(len(contents), bool) if task.near_duplicates is None else find_repeats(contents, task)

    def rules(self, config: ImageConfig) -> dict[str, object]:
        names = {"classes", "min_side", "max_pixels", "max_characters", "near_duplicates"}
        separator = {"label_separator"} if config.task.is_multilabel else set[str]()
        return config.task.model_dump(include=names | separator) | {"pillow": PIL.__version__}


def find_faults(contents: "pd.Series", task: ImageTaskConfig) -> "pd.Series":
    """Return for each image the rule that rejects it, or null."""
    return contents.map(lambda content: _fault(content, task)).astype(object)


def find_repeats(contents: "pd.Series", task: ImageTaskConfig) -> npt.NDArray[np.bool_]:
    """Return which images, none of them bad, look like one before them that does not, (n,).

    Each is compared with all that stay, which takes seconds of 100,000, where decoding them takes minutes.
    """
    decoded = (images.decode_image(content, task.max_pixels, images.HASHED_FROM) for content in contents)
    staying, repeats = np.empty(len(contents), np.uint64), np.zeros(len(contents), bool)
    count = 0
    for index, image in enumerate(decoded):
        staying[count] = images.difference_hash(image)
        distances = np.bitwise_count(staying[:count] ^ staying[count])
        repeats[index] = (distances <= task.near_duplicates).any()
        count += not repeats[index]
    return repeats


def _fault(content: Any, task: ImageTaskConfig) -> str | None:
    if not isinstance(content, bytes | str) or not content:
        return "empty"
    if isinstance(content, str):
        return "missing_file"
    try:
        image = images.decode_image(content, task.max_pixels)
    except UnusableError as error:
        return str(error)
    return "too_small" if min(image.size) < task.min_side else None
