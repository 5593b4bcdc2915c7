"""Language models: the task `language-modeling`, GGUF files, engine, gateway, quantization, suite and load test."""

from nightshift.kinds import ITEMS, TaskKind

DISTRIBUTION = "nightshift-llm"  # its name on the package index
KIND = TaskKind(
    "language-modeling",
    ("nightshift_llm.task", ITEMS),
    "nightshift_llm.config:LanguageConfig",
    "nightshift_llm.preprocessing:LanguagePreprocessing",
    "nightshift_llm.configs",
    pipeline_tag="text-generation",
)
