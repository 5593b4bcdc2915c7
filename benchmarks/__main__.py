"""Run all benchmarks, print their tables, and write runs/bench.json."""

import json
import os
from pathlib import Path

from benchmarks import features, orchestration

results = {"cores": os.cpu_count(), "orchestration": orchestration.run(), "features": features.run()}
path = Path("runs/bench.json")
path.parent.mkdir(exist_ok=True)
path.write_text(json.dumps(results, indent=2) + "\n")
print(f"wrote {path}")
