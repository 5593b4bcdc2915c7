"""Compile the pipelines with kfp. The only part of the package that needs it."""

import importlib
from collections.abc import Iterator
from pathlib import Path

from components.common.errors import UserError

# file name -> module; the pipeline function has the module's name
PIPELINES = {
    "fraud-training": "fraud_training",
    "fraud-scoring": "fraud_scoring",
    "fraud-monitoring": "fraud_monitoring",
    "nightly": "nightly",
}


def compile_pipelines(folder: Path) -> Iterator[Path]:
    """Write every pipeline's YAML into a folder.

    Raises:
        UserError: when kfp is not installed.
    """
    try:
        from kfp import compiler
    except ImportError:
        raise UserError("compiling needs kfp; run in the checkout: pip install -e '.[kfp]'") from None
    folder.mkdir(parents=True, exist_ok=True)
    for name, module in PIPELINES.items():
        function = getattr(importlib.import_module(f"pipelines.{module}"), module)
        path = folder / f"{name}.yaml"
        compiler.Compiler().compile(function, str(path))
        yield path
