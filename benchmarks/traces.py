"""Analysis of traces: a generated one, and published ones beside HolisticTraceAnalysis.

python -m benchmarks.traces [MEGABYTES]            time and peak memory of 200 MB or more, plain and gzip
python -m benchmarks.traces oracle PYTHON TRACE...  figures beside those of HolisticTraceAnalysis, which is installed
                                                   beside that Python interpreter
"""

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

SIZE = 200_000_000
STEP_US, LAYERS = 100_000, 400
# prints what it finds of each trace; the whole of it, with its last step
ORACLE = """
import contextlib, json, os, sys, warnings
warnings.filterwarnings("ignore")
found = {}
with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
    from hta.trace_analysis import TraceAnalysis
    for path in sys.argv[1:]:
        one = TraceAnalysis(trace_files={0: path}, include_last_profiler_step=True)
        times = one.get_temporal_breakdown(visualize=False).iloc[0].to_dict()
        overlap = one.get_comm_comp_overlap(visualize=False).iloc[0]["comp_comm_overlap_pctg"]
        _, kernels = one.get_gpu_kernel_breakdown(visualize=False, num_kernels=10)
        sums = {row["name"]: float(row["sum (us)"]) for row in kernels.to_dict("records")}
        found[path] = {"idle": times["idle_time_pctg"], "overlap": float(overlap), "kernels": sums}
print(json.dumps(found))
"""


def run(size: int) -> None:
    """Measure a trace of so many bytes, plain and gzip, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        plain, packed = Path(folder, "trace.json"), Path(folder, "trace.json.gz")
        events = write(plain, size)
        packed.write_bytes(gzip.compress(plain.read_bytes(), 1))
        for path in (plain, packed):
            started = time.perf_counter()
            command = [
                sys.executable,
                "-m",
                "pipelines.cli",
                "profile",
                "--trace",
                str(path),
                "--output",
                f"{folder}/out",
            ]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            assert process.returncode == 0, path
            seconds, peak = time.perf_counter() - started, used.ru_maxrss / 1000
            print(f"{path.name}: {plain.stat().st_size / 1e6:.0f} MB of JSON, {events:,} events: {seconds:.1f} s "
                  f"({used.ru_utime + used.ru_stime:.1f} CPU seconds), peak memory {peak:,.0f} MB")  # fmt: skip


def write(path: Path, size: int) -> int:
    """Write a trace of so many bytes, as PyTorch 2 formats it; return its events."""
    shapes = {"Input Dims": [[512, 1024], [1024, 1024]], "Input type": ["float", "float"]}
    count, step = 0, 0
    with path.open("w") as file:
        file.write('{\n  "schemaVersion": 1,\n  "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}],\n')
        file.write('  "traceEvents": [\n')
        while file.tell() < size:
            for event in _step(step, shapes):
                file.write(("  " if not count else ",\n  ") + json.dumps(event))
                count += 1
            step += 1
        file.write('\n  ],\n  "traceName": "generated"\n}\n')
    return count


def _step(step: int, shapes: dict[str, Any]) -> list[dict[str, Any]]:
    zero = 1_000_000_000.125 + step * STEP_US
    events = [_event("user_annotation", f"ProfilerStep#{step}", zero, STEP_US - 1, {"External id": step})]
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    events.append(_event("user_annotation", loader, zero + 10, 5000, {"External id": step}))
    for layer in range(LAYERS):
        at, number = zero + 6000 + layer * 230, step * LAYERS + layer
        where = {
            "External id": number,
            "device": 0,
            "stream": 7,
            "correlation": number,
            "grid": [64, 1, 1],
            "block": [256, 1, 1],
        }
        events += [
            _event("cpu_op", "aten::mm", at, 40, {"External id": number, "Ev Idx": number} | shapes),
            _event("cpu_op", "aten::empty", at + 5, 3, {"External id": number, "Ev Idx": number}),
            _event(
                "cuda_runtime",
                "cudaLaunchKernel",
                at + 20,
                6,
                {"External id": number, "cbid": 211, "correlation": number},
            ),
            {"ph": "s", "id": number, "pid": 1, "tid": 1, "ts": at + 20, "cat": "ac2g", "name": "ac2g"},
            _event("kernel", f"ampere_sgemm_128x{32 + layer % 40}_nn", at + 30, 150, where, pid=0),
        ]
    return events


def _event(category: str, name: str, at: float, took: float, args: dict[str, Any], pid: int = 1) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": 7, "ts": at, "dur": took, "args": args}


def compare(python: str, paths: list[str]) -> None:
    """Print this project's figures of traces beside those of HolisticTraceAnalysis.

    It looks at the time from a GPU's first work to its last, so this is done here too, without the marked steps.
    """
    from nightshift_perf.traces import arithmetic, breakdown, kernels, read, timeline

    paths = [str(Path(path).resolve()) for path in paths]  # it finds no others
    done = subprocess.run([python, "-c", ORACLE, *paths], check=True, capture_output=True, text=True)
    theirs = json.loads(done.stdout.splitlines()[-1])
    print("| trace | figure | here | HolisticTraceAnalysis | difference |\n|---|---|---|---|---|")
    for path in paths:
        trace, known, name = read.read(path), theirs[path], Path(path).name.removesuffix(".json.gz")
        for device in trace.devices:
            one = breakdown.measure(replace(trace, steps=timeline.NOTHING), device)
            _row(name, "busy, %", one.percent(one.busy), 100 - known["idle"])
            if one.communication:
                exposed = 100 * one.exposed_communication / one.communication
                _row(name, "exposed communication, % of it", exposed, 100 - known["overlap"])
        sums = {
            kernel_time.name: 1000 * kernel_time.total_ms
            for kernel_time in kernels.top_kernels([trace], arithmetic.judge([trace]))
        }
        both = [kernel for kernel in sums if kernel in known["kernels"]][:5]
        for position, kernel in enumerate(both, 1):
            short = re.sub(r"[<(].*", "", kernel.removeprefix("void "))[:40]
            _row(name, f"kernel {position}, {short}, ms", sums[kernel] / 1000, known["kernels"][kernel] / 1000)


def _row(name: str, figure: str, ours: float, theirs: float) -> None:
    print(
        f"| {name} | {figure} | {ours:.2f} | {theirs:.2f} | {100 * abs(ours - theirs) / max(abs(theirs), 1e-9):.2f} % |"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["oracle"]:
        compare(sys.argv[2], sys.argv[3:])
    else:
        run(int(sys.argv[1]) * 1_000_000 if sys.argv[1:] else SIZE)
