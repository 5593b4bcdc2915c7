"""Compile the pipelines with kfp. The only part of the command line that needs it."""

import importlib
import pkgutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nightshift.runtime.errors import UserError
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
    try:
        from kfp import compiler
    except ImportError:
        raise UserError("compiling needs kfp; run in the checkout: pip install -e '.[kfp]'") from None
    site_folder = folder / site.name
    site_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        compiled = Path(scratch, "pipeline.yaml")
        for name in PIPELINES:
            graph = importlib.import_module(f"pipelines.graphs.{name}")
            compiler.Compiler().compile(graph.define(), str(compiled))
            path = site_folder / f"{name}.yaml"
            path.write_bytes(documents.dump(place_steps(documents.read(compiled)[0], site)))
            yield path
