"""The configuration of one use case: what the columns mean, which task, which gates, when it runs.

A config is one YAML file and travels through the pipeline as one value. It holds no URI: where things
lie is the environment's business (see `pipelines/environments.py`).
"""

from nightshift.config.usecase import Config, LabeledConfig, parse

__all__ = ["Config", "LabeledConfig", "parse"]
