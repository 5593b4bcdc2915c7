"""Plans of 10 and 13 billion parameters, each as its written config trains a stand-in in 8 processes.

Beside one process the losses of the first steps are equal; the memory of the fullest process is counted beside the
planner's, and a pipeline's waits beside the formula's.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

from benchmarks import figures
from nightshift.contracts import package
from nightshift.runtime.argv import shorten
from pipelines.configs import plans
from tests.components.tales import Night
from tests.nightshift.models.neural import census

DAY = "2024-03-10"
STEPS = 10
PLANS = {
    "llama-10b": "--gpu a100-80gb --nodes 2 --gpus-per-node 4 --network 50 --batch 64",
    "llama-13b": "--gpu a100-80gb --nodes 8 --gpus-per-node 8 --batch 1024",
}
FIT = ("microbatches", "recompute")
ROWS, DEPTH = 8, 6  # of a micro-batch and at least, where memory is counted: of less, what is no layer is most of it


def measure(name: str, folder: Path) -> figures.Row:
    """Plan a shipped config, train its stand-in together and alone, and count what its processes hold."""
    small = plans.load_planned(name, write_plan(name, folder), is_small=True)
    small["simulator"] = {"items": 24, "words": 30}
    small["task"]["candidates"]["llama"]["parameters"]["epochs"] = 4
    alone = deepcopy(small)
    alone["task"].pop("trainer")
    losses = {config["name"]: train(config, folder) for config in (small, alone | {"name": "alone"})}
    together, single = losses.values()
    assert min(map(len, losses.values())) >= STEPS, losses
    gap = max(abs(a - b) for (_, a), (_, b) in zip(together[:STEPS], single[:STEPS], strict=True))
    return {"plan": name, "largest difference of 10 losses": f"{gap:.1g}"} | count(small)


def write_plan(name: str, folder: Path) -> str:
    """Have the planner write its proposal."""
    file = str(folder / f"{name}.yaml")
    words = ["perf", "plan", "--model", name, *PLANS[name].split(), "--write", file]
    subprocess.run([sys.executable, "-m", "pipelines.cli", *words], check=True, stdout=subprocess.DEVNULL)
    return file


def train(config: dict[str, Any], folder: Path) -> list[tuple[int, float]]:
    """Return the losses of a training by step."""
    night = Night(folder / config["name"], DAY, config)
    night.run("ingestion", "features")
    context = night.context(features="features.json", model="model")
    flags = [word for name in ("config", "date", "device", "state", "features", "model")
             for word in (f"--{name}", str(getattr(context.args, name)))]  # fmt: skip
    subprocess.run(shorten([sys.executable, "-m", "components.training", *flags], night.folder), check=True)
    return package.load(str(night.folder / "model")).candidates["llama"].losses


def count(config: dict[str, Any]) -> figures.Row:
    """Return the memory and the bubble of a config's layout beside the planner's."""
    trainer, parameters = config["task"]["trainer"], config["task"]["candidates"]["llama"]["parameters"]
    layout = {name: value for name, value in trainer.items() if name != "processes"}
    fit = {name: parameters[name] for name in FIT}
    fit |= {"batch_size": ROWS * parameters["batch_size"], "depth": max(DEPTH, parameters["depth"])}
    (row,) = census.count_layouts(json.dumps([layout, fit]))
    return {name: value for name, value in row.items() if name != "layout"}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.plans_in_small", description=__doc__)
    parser.add_argument("plans", nargs="*", default=[*PLANS], help="default: both")
    rows = []
    for plan in parser.parse_args().plans:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(plan, Path(folder)))
            print(rows[-1], flush=True)
    figures.publish("plans-in-small", rows)
