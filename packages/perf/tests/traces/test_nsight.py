"""SQLite exports of Nsight Systems in the layouts of its versions, by its documentation and public readers."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from nightshift.runtime.errors import UserError
from nightshift_perf.traces import gaps, read
from nightshift_perf.traces.analysis import Known, analyze

TEXTS = ["", "sgemm", "void sgemm<float>(int)", "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "step 1", "forward"]
PAGEABLE, PINNED, DEVICE, UNKNOWN = 0, 1, 2, 7  # CUDA_MEMOPR_MEMORY_KIND_*
PROCESS = (3 << 56) | (4242 << 24)  # a machine, a process
THREAD = PROCESS | 4243
WHEN = "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT"


@dataclass(frozen=True)
class Layout:
    """What an export of a version holds.

    Attributes:
        gpus: the table of GPUs, its column of their numbers, and whether another maps a process's numbers to them.
        has_processes: work says whose it is.
        enums: which values of enumerations are explained in tables of their own.
        kernels: further columns of kernels.
        ranges: how ranges are named: as `text`, or as `textId` of registered strings.
        has_defaults: what is missing is 0 or an empty text instead of NULL.
        has_graphs: CUDA graphs are a table of their own.
        further: tables that are of no use here.
    """

    gpus: tuple[str, str, bool] = ("TARGET_INFO_GPU", "id", True)
    has_processes: bool = True
    enums: tuple[str, ...] = ("ENUM_CUDA_MEM_KIND", "ENUM_CUDA_MEMCPY_OPER", "ENUM_NSYS_EVENT_TYPE")
    kernels: str = ", mangledName INT, graphNodeId INT"
    ranges: str = "textId"
    has_defaults: bool = False
    has_graphs: bool = True
    further: tuple[str, ...] = field(default=("META_DATA_EXPORT (name TEXT, value TEXT)",))


METRICS = (
    "GPU_METRICS (timestamp INT, typeId INT, metricId INT, value INT)",
    "TARGET_INFO_GPU_METRICS (typeId INT, sourceId INT, typeName TEXT, metricId INT, metricName TEXT)",
)
OLD = {"enums": (), "kernels": "", "ranges": "text", "has_defaults": True, "has_graphs": False, "further": ()}
LAYOUTS = {
    "2019.5, no processes": Layout(("TARGET_INFO_CUDA_GPU", "deviceId", False), has_processes=False, **OLD),
    "2020.1": Layout(("TARGET_INFO_CUDA_GPU", "deviceId", False), **OLD),
    "2020.4": Layout(("TARGET_INFO_GPU", "deviceId", False), **OLD),
    "2021.1": Layout(("TARGET_INFO_CUDA_GPU", "deviceId", False), **OLD | {"ranges": "textId"}),
    "2021.5": Layout(("TARGET_INFO_GPU", "id", True), **OLD | {"ranges": "textId", "has_defaults": False}),
    "2022.4": Layout(enums=()),
    "2023.2": Layout(),
    "2024.5, with GPU metrics": Layout(further=METRICS),
    "2025.6": Layout(kernels=", greenContextId INT, mangledName INT, graphId INT, clusterX INT", further=METRICS),
    "2026.1, no GPUs": Layout(gpus=("", "", False)),
}


def export(path, layout=Layout(), without=(), copy=PAGEABLE):
    """Write 2 ms of two steps: a copy, two kernels, a memset and, where the layout has them, a CUDA graph."""
    owner = ", globalPid INT" if layout.has_processes else ""
    tables = {
        "StringIds": "id INT, value TEXT",
        "CUPTI_ACTIVITY_KIND_KERNEL": f"{WHEN}{owner}, demangledName INT, shortName INT{layout.kernels}",
        "CUPTI_ACTIVITY_KIND_MEMCPY": f"{WHEN}{owner}, bytes INT, copyKind INT, srcKind INT, dstKind INT",
        "CUPTI_ACTIVITY_KIND_MEMSET": f"{WHEN}{owner}, bytes INT, value INT",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "start INT, end INT, eventClass INT, globalTid INT, correlationId INT, "
        "nameId INT",
        "NVTX_EVENTS": "start INT, end INT, eventType INT, globalTid INT, text TEXT"
        + (", textId INT" if layout.ranges == "textId" else ""),
    }
    rows = {table: [] for table in tables} | {"StringIds": list(enumerate(TEXTS))}
    owned = (PROCESS,) if layout.has_processes else ()
    for start, end, cause in ((500_000, 900_000, 11), (1_100_000, 1_700_000, 12)):
        rows["CUPTI_ACTIVITY_KIND_KERNEL"].append((start, end, 0, 1, 7, cause, *owned, 2, 1))
    rows["CUPTI_ACTIVITY_KIND_MEMCPY"].append((200_000, 400_000, 0, 1, 7, 10, *owned, 4096, 1, copy, DEVICE))
    rows["CUPTI_ACTIVITY_KIND_MEMSET"].append((410_000, 420_000, 0, 1, 7, 13, *owned, 64, 0))
    rows["CUPTI_ACTIVITY_KIND_RUNTIME"] += [(490_000, 495_000, 0, THREAD, 11, 3), (100_000, 450_000, 0, THREAD, 10, 4)]
    rows["NVTX_EVENTS"] += ranges(layout)
    if layout.has_graphs:
        tables["CUPTI_ACTIVITY_KIND_GRAPH_TRACE"] = f"{WHEN}{owner}, graphId INT, graphExecId INT"
        rows["CUPTI_ACTIVITY_KIND_GRAPH_TRACE"] = [(1_700_000, 1_900_000, 0, 1, 7, 14, *owned, 3, 5)]
    add_gpus(layout, tables, rows)
    for enum in layout.enums:
        tables[enum], rows[enum] = "id INT, name TEXT, label TEXT", [(0, "", "Pageable"), (1, "", "Pinned")]
    write(path, {name: columns for name, columns in tables.items() if name not in without}, rows, layout.further)
    return str(path)


def ranges(layout):
    empty = {"text": "" if layout.has_defaults else None, "textId": 0 if layout.has_defaults else None}
    named = [(0, 1_000_000, 59, "step 1"), (1_000_000, 2_000_000, 59, "step 2"), (10_000, 500_000, 60, "forward")]
    named += [(5, 0 if layout.has_defaults else None, 34, "a mark")]
    for start, end, kind, text in named:
        if layout.ranges == "textId" and text in TEXTS:
            yield start, end, kind, THREAD, empty["text"], TEXTS.index(text)
        else:
            yield start, end, kind, THREAD, text, empty["textId"]


def add_gpus(layout, tables, rows):
    """Add an A100 and an L4, of which the process sees the second one alone where a table maps its numbers."""
    table, number, is_mapped = layout.gpus
    if table:
        tables[table] = f"{number} INT, name TEXT, busLocation TEXT"
        rows[table] = [(0, "NVIDIA A100", ""), (1, "NVIDIA L4", "")] if is_mapped else [(0, "NVIDIA L4", "")]
    if is_mapped:
        tables["TARGET_INFO_CUDA_DEVICE"] = "gpuId INT, cudaId INT, pid INT, uuid TEXT"
        rows["TARGET_INFO_CUDA_DEVICE"] = [(1, 0, 4242, ""), (0, 0, 17, "")]


def write(path, tables, rows, further):
    with closing(sqlite3.connect(path)) as database:
        for table, columns in tables.items():
            database.execute(f"CREATE TABLE {table} ({columns})")
            for row in rows[table]:
                values = (*row, *[None] * (columns.count(",") + 1 - len(row)))[: columns.count(",") + 1]
                database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
        for table in further:
            database.execute(f"CREATE TABLE {table}")
        database.commit()


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_every_layout_says_the_same(layout, tmp_path):
    trace = read.read(export(tmp_path / "train.sqlite", layout))
    profile = analyze([trace], Known())

    # the graph is a tenth of the two milliseconds
    assert (profile.step_ms, profile.gpu_busy_pct) == (1.0, 60.5 + 10 * layout.has_graphs)
    assert (gaps.pageable(trace, trace.work).sum(), profile.top_kernels[0].name) == (1, "void sgemm<float>(int)")
    assert {finding.title for finding in profile.diagnosis} >= {"Copies from pageable memory"}
    assert [(one.steps, one.device_name) for one in profile.ranks] == [(2, "NVIDIA L4" if layout.gpus[0] else "")]
    assert [operation.name for operation in profile.top_operations][:2] == ["step 2", "step 1"]
    assert trace.work["end"].max() == 1900 if layout.has_graphs else 1700  # microseconds


@pytest.mark.parametrize("layout", [LAYOUTS["2020.1"], LAYOUTS["2025.6"]], ids=["2020", "2025"])
@pytest.mark.parametrize("memory", [PINNED, UNKNOWN, None])
def test_only_what_is_pageable_is_pageable(memory, layout, tmp_path):
    trace = read.read(export(tmp_path / "train.sqlite", layout, copy=memory))
    assert not gaps.pageable(trace, trace.work).any()


@pytest.mark.parametrize(
    ("without", "steps", "busy"),
    [
        (("NVTX_EVENTS",), 0, 100 * 1410 / 1700),
        (("CUPTI_ACTIVITY_KIND_RUNTIME",), 2, 70.5),
        (("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"), 2, 60),
        (("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"), 2, 10.5),
        (("StringIds",), 1, None),
        (("TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE", "ENUM_CUDA_MEM_KIND"), 2, 70.5),
    ],
)
def test_tables_that_were_not_recorded_are_no_reason_to_fail(without, steps, busy, tmp_path):
    profile = analyze([read.read(export(tmp_path / "train.sqlite", Layout(), without))], Known())
    assert [one.steps for one in profile.ranks] == [steps]
    assert busy is None or profile.gpu_busy_pct == pytest.approx(busy, abs=0.01)
    assert any("NVTX range" in caveat for caveat in profile.caveats) == (not steps)


@pytest.mark.parametrize("tables", [{}, {"StringIds": "id INT, value TEXT"}])
def test_a_database_of_something_else_is_refused(tables, tmp_path):
    path = tmp_path / "other.sqlite"
    write(path, tables | {"something": "a INT"}, {"StringIds": [], "something": []}, METRICS)
    with pytest.raises(UserError, match=r"^(?!.*no complete).*nsys profile --trace=cuda,nvtx"):
        read.read(str(path))


def test_values_of_another_kind_are_refused_in_one_line(tmp_path):
    path = export(tmp_path / "train.sqlite")
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon'")
        database.commit()
    with pytest.raises(UserError, match="no complete SQLite export"):
        read.read(path)


def test_a_truncated_export_is_refused(tmp_path):
    path = tmp_path / "train.sqlite"
    whole = tmp_path / "whole.sqlite"
    export(whole)
    path.write_bytes(whole.read_bytes()[:5000])
    with pytest.raises(UserError, match="no complete SQLite export"):
        read.read(str(path))


def test_grids_migrations_of_unified_memory_and_sampled_clocks_are_read(tmp_path):
    path = export(tmp_path / "train.sqlite", LAYOUTS["2024.5, with GPU metrics"])
    with closing(sqlite3.connect(path)) as database:
        for axis in "XYZ":
            database.execute(f"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN grid{axis} INT DEFAULT 2")
        database.execute("ALTER TABLE TARGET_INFO_GPU ADD COLUMN smCount INT DEFAULT 80")
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyKind = 11, bytes = 2097152")
        clock = (256, 1, "General Metrics", 7, "GPC Clock Frequency [MHz]")
        database.execute("INSERT INTO TARGET_INFO_GPU_METRICS VALUES (?, ?, ?, ?, ?)", clock)
        for at, value in ((600_000, 1980), (1_200_000, 990), (1_300_000, 990)):
            database.execute("INSERT INTO GPU_METRICS VALUES (?, 256, 7, ?)", (at, value))
        database.commit()
    trace = read.read(path)
    kernels = trace.work[trace.work["name"] == trace.names.index("void sgemm<float>(int)")]
    assert kernels["blocks"] == pytest.approx(0.1)
    assert gaps.migrating(trace, trace.work).sum() == 1
    assert trace.counters[0, "GPC Clock Frequency [MHz]"].tolist() == [[600, 1980], [1200, 990], [1300, 990]]
    titles = [finding.title for finding in analyze([trace], Known()).diagnosis]
    assert {"Page migrations (unified memory)", "A GPU that slows down"} <= set(titles)
    assert "Copies from pageable memory" not in titles
