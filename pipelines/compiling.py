"""Compile the pipelines with kfp. The only part of the command line that needs it."""

import importlib
import pkgutil
import tempfile
from collections.abc import Iterator
from inspect import signature
from pathlib import Path

from nightshift.runtime.errors import UserError, suggest_install
from pipelines import documents
from pipelines.environments import Site
from pipelines.placement import place_steps

GRAPHS = Path(__file__).parent / "graphs"
# the compiled file has the same name
PIPELINES = sorted(module.name for module in pkgutil.iter_modules([str(GRAPHS)]))


def compile_pipelines(site: Site, folder: Path) -> Iterator[Path]:
    """Write every pipeline's YAML for a site into `<folder>/<site>/`.

    Raises:
        UserError: when kfp is not installed.
    """
    for name in PIPELINES:
        yield compile_pipeline(name, site, folder)


def compile_pipeline(name: str, site: Site, folder: Path) -> Path:
    """Write a pipeline's YAML, see `compile_pipelines`."""
    try:
        from kfp import compiler
    except ImportError:
        raise UserError(f"compiling needs kfp; run {suggest_install('kfp')}") from None
    path = folder / site.name / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    define = importlib.import_module(f"pipelines.graphs.{name}").define
    shards = [site.feature_shards] if signature(define).parameters else []
    with tempfile.TemporaryDirectory() as scratch:
        compiled = Path(scratch, "pipeline.yaml")
        compiler.Compiler().compile(define(*shards), str(compiled))
        path.write_bytes(documents.dump(place_steps(documents.read(compiled)[0], site)))
    return path
