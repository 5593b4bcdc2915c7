"""Profilers: a fit in, its operations and a Chrome trace out."""

import cProfile
import gzip
import json
import pstats
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile

from nightshift.contracts.profile import Operation, PhaseName

TOP = 10

Traced = tuple[list[Operation], bytes]


def by_torch(fit: Callable[[], object], device: str) -> Traced:
    """Profile a fit with PyTorch; the trace shows every operation."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    with profile(activities=activities, acc_events=True) as profiler:
        fit()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json.gz"
        profiler.export_chrome_trace(str(path))
        return top(_torch_operations(profiler, device)), path.read_bytes()


def by_python(fit: Callable[[], object], seconds: Mapping[PhaseName, float]) -> Traced:
    """Profile a fit with cProfile; the trace shows the phases, and lists every function."""
    profiler = cProfile.Profile()
    profiler.runcall(fit)
    operations = _python_operations(pstats.Stats(profiler))
    events, start = [], 0.0
    for name, took in seconds.items():
        events.append({"name": name, "ph": "X", "ts": 1e6 * start, "dur": 1e6 * took, "pid": 0, "tid": 0})
        start += took
    functions = [operation.model_dump() for operation in operations]
    trace = json.dumps({"traceEvents": events, "otherData": {"functions": functions}})
    return top(operations), gzip.compress(trace.encode(), mtime=0)


def top(operations: list[Operation]) -> list[Operation]:
    """Return the operations with the largest shares, at most `TOP`."""
    return sorted(operations, key=lambda operation: -operation.share)[:TOP]


def _torch_operations(profiler: profile, device: str) -> list[Operation]:
    events = [event for event in profiler.key_averages() if event.device_type.name == device.upper()]
    if device == "cuda":
        # PyTorch's own annotations span kernels that are counted already
        events = [event for event in events if not event.is_user_annotation]
    times = [_self_time(event, device) for event in events]
    return [
        Operation(
            name=event.key,
            calls=event.count,
            self_cpu_ms=round(event.self_cpu_time_total / 1000, 3),
            self_device_ms=round(event.self_device_time_total / 1000, 3) if device == "cuda" else None,
            share=round(own / sum(times), 4),
        )
        for event, own in zip(events, times, strict=True)
    ]


def _self_time(event: Any, device: str) -> float:
    return float(event.self_device_time_total if device == "cuda" else event.self_cpu_time_total)


def _python_operations(stats: pstats.Stats) -> list[Operation]:
    functions: dict[tuple[str, int, str], tuple[int, int, float, float, Any]] = stats.stats  # type: ignore[attr-defined]
    total = sum(own for _, _, own, _, _ in functions.values())
    return [
        Operation(
            name=_shorten_name(file, name),
            calls=calls,
            self_cpu_ms=round(own * 1000, 3),
            self_device_ms=None,
            share=round(own / total, 4),
        )
        for (file, _, name), (_, calls, own, _, _) in functions.items()
    ]


def _shorten_name(file: str, name: str) -> str:
    if file == "~":
        return name
    _, library, below = file.rpartition("site-packages/")
    return f"{below if library else '/'.join(Path(file).parts[-2:])}:{name}"
