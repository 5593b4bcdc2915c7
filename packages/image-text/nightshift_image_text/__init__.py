"""Images with reports: the task `image-text`, DICOM files, de-identification, and an index of reports."""

from nightshift.kinds import CLASSIFICATION, ITEMS, TaskKind

DISTRIBUTION = "nightshift-image-text"  # its name on the package index
KIND = TaskKind(
    "image-text",
    ("nightshift_image_text.task", CLASSIFICATION, ITEMS),
    "nightshift_image_text.config:ImageTextConfig",
    "nightshift_image_text.preprocessing:ImageTextPreprocessing",
    "nightshift_image_text.configs",
    pipeline_tag="zero-shot-image-classification",
)
