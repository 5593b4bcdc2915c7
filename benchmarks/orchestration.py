"""What orchestration costs: seven no-op steps in a row from the shell, and how fast a step answers `--help`."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import figures

NOOPS = Path(__file__).parent / "noops"
ATTEMPTS = 3
STEPS = (
    "ingestion",
    "features",
    "training",
    "profiling",
    "optimization",
    "evaluation",
    "drift",
    "monitoring",
    "deployment",
    "reporting",
)


def run() -> list[dict[str, Any]]:
    """Time every engine and every step's help; returns {name, seconds, ratio} with ratios to Nightshift."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = str(Path(folder) / "noops.yaml")
        subprocess.run([sys.executable, str(NOOPS / "nightshift.py"), compiled], check=True)
        engines = {
            "nightshift": ["-m", "pipelines.cli", "run", compiled, "--workspace", folder],
            "kfp.local": [str(NOOPS / "kfp_local.py")],
            "metaflow": [str(NOOPS / "metaflow_flow.py"), "run"],
            "dagster": [str(NOOPS / "dagster_job.py")],
        }
        engine_rows = _rows({name: _seconds(argv, folder) for name, argv in engines.items()})
        helps = _rows({step: _seconds(["-m", f"components.{step}", "--help"], folder) for step in STEPS})
    figures.publish("orchestration", engine_rows, "Seven no-op steps in a row from the shell, best of three.")
    figures.publish("helps", helps, "`python -m components.<step> --help`, best of three.")
    return engine_rows + [row | {"name": f"{row['name']} --help"} for row in helps]


def _seconds(argv: list[str], folder: str) -> float:
    environment = {"PATH": str(Path(sys.executable).parent) + ":/usr/bin:/bin", "HOME": folder, "USER": "bench"}
    times = []
    for _ in range(ATTEMPTS):
        started = time.perf_counter()
        subprocess.run([sys.executable, *argv], check=True, capture_output=True, cwd=folder, env=environment)
        times.append(time.perf_counter() - started)
    return min(times)


def _rows(times: dict[str, float]) -> list[dict[str, Any]]:
    first = next(iter(times.values()))
    return [{"name": name, "seconds": round(took, 3), "ratio": round(took / first, 1)} for name, took in times.items()]
