"""Compile the pipelines with kfp. The only part of the command line that needs it."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

from nightshift.runtime.errors import UserError
from nightshift.runtime.telemetry import PIPELINE
from pipelines import graphs
from pipelines.environments import Site

# the compiled file has the same name
PIPELINES = sorted(module.name for module in pkgutil.iter_modules(graphs.__path__))


def compile_pipelines(site: Site, folder: Path) -> Iterator[Path]:
    """Write every pipeline's YAML for a site into `<folder>/<site>/`.

    Raises:
        UserError: when kfp is not installed.
    """
    try:
        from kfp import compiler
    except ImportError:
        raise UserError("compiling needs kfp; run in the checkout: pip install -e '.[kfp]'") from None
    site_folder = folder / site.name
    site_folder.mkdir(parents=True, exist_ok=True)
    for name in PIPELINES:
        pipeline = importlib.import_module(f"pipelines.graphs.{name}").define(site.with_variables(**{PIPELINE: name}))
        known = pipeline.component_spec.inputs or {}
        defaults = {key: value for key, value in site.parameters.items() if key in known}
        path = site_folder / f"{name}.yaml"
        compiler.Compiler().compile(pipeline, str(path), pipeline_parameters=defaults)
        # kfp orders a mapping in the header's comment differently each time
        path.write_text(re.sub(r"(?m)^(#.*) \[Default: \{.*\}\]$", r"\1", path.read_text()))
        yield path
