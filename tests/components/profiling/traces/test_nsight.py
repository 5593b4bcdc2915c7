"""SQLite exports of Nsight Systems, made by the schema of its documentation."""

import sqlite3
from contextlib import closing

import pytest

from components.common.errors import UserError
from components.profiling.traces import read
from components.profiling.traces.analysis import Known, analyze

TEXTS = ["sgemm", "void sgemm<float>(int)", "cudaLaunchKernel", "cudaMemcpyAsync", "step 1", "forward"]
TABLES = {
    "StringIds": "id INTEGER, value TEXT",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, "
    "demangledName INT, shortName INT",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, "
    "bytes INT, copyKind INT, srcKind INT, dstKind INT",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, "
    "bytes INT",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INT, end INT, globalTid INT, correlationId INT, nameId INT, returnValue INT",
    "NVTX_EVENTS": "start INT, end INT, eventType INT, text TEXT, globalTid INT, textId INT",
    "TARGET_INFO_GPU": "id INT, name TEXT",
}
ROWS = {  # nanoseconds
    "StringIds": list(enumerate(TEXTS)),
    "CUPTI_ACTIVITY_KIND_KERNEL": [(500_000, 900_000, 0, 1, 7, 11, 1, 0), (1_100_000, 1_900_000, 0, 1, 7, 12, 1, 0)],
    "CUPTI_ACTIVITY_KIND_MEMCPY": [(200_000, 400_000, 0, 1, 7, 10, 4096, 1, 0, 2)],
    "CUPTI_ACTIVITY_KIND_MEMSET": [(410_000, 420_000, 0, 1, 7, 13, 64)],
    "CUPTI_ACTIVITY_KIND_RUNTIME": [(490_000, 495_000, 5, 11, 2, 0), (100_000, 450_000, 5, 10, 3, 0)],
    "NVTX_EVENTS": [
        (0, 1_000_000, 59, None, 5, 4),
        (1_000_000, 2_000_000, 59, "step 2", 5, None),
        (10_000, 500_000, 60, None, 5, 5),
        (5, None, 34, "a mark", 5, None),
    ],
    "TARGET_INFO_GPU": [(0, "NVIDIA L4")],
}


def export(path, tables=TABLES):
    with closing(sqlite3.connect(path)) as database:
        for table, columns in tables.items():
            names = [column.split()[0] for column in columns.split(", ")]
            database.execute(f"CREATE TABLE {table} ({columns})")
            marks = ", ".join("?" * len(names))
            rows = [row[: len(names)] for row in ROWS[table]]
            database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608
        database.commit()
    return str(path)


def test_an_export_is_analyzed_as_a_trace_is(tmp_path):
    trace = read.read(export(tmp_path / "train.sqlite"))
    profile = analyze([trace], Known())

    assert (profile.step_ms, profile.gpu_busy_pct) == (1.0, 70.5)
    assert (profile.pageable_copies_per_step, profile.top_kernels[0].name) == (0.5, "void sgemm<float>(int)")
    assert {each.title for each in profile.diagnosis} >= {"Copies from pageable memory"}
    assert profile.ranks[0].device_name == "NVIDIA L4"
    assert [each.name for each in profile.top_operations][:2] == ["step 2", "step 1"]
    assert trace.work["end"].max() == 1900  # microseconds


def test_tables_and_columns_that_were_not_recorded_are_no_reason_to_fail(tmp_path):
    kernels = {
        "StringIds": TABLES["StringIds"],
        "CUPTI_ACTIVITY_KIND_KERNEL": "start INT, end INT, deviceId INT, contextId INT, streamId INT",
    }
    profile = analyze([read.read(export(tmp_path / "train.sqlite", kernels))], Known())
    assert (profile.step_ms, profile.gpu_busy_pct) == (None, pytest.approx(1200 / 1400 * 100, abs=0.01))
    assert profile.top_kernels[0].name == "unknown kernel"
    assert any("NVTX range" in each for each in profile.caveats)


@pytest.mark.parametrize("tables", [{}, {"StringIds": TABLES["StringIds"]}])
def test_a_database_of_something_else_is_refused(tables, tmp_path):
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE something (a INT)")
        database.commit()
    with pytest.raises(UserError, match="nsys profile --trace=cuda,nvtx"):
        read.read(export(path, tables))


def test_a_truncated_export_is_refused(tmp_path):
    path = tmp_path / "train.sqlite"
    whole = tmp_path / "whole.sqlite"
    export(whole)
    path.write_bytes(whole.read_bytes()[:5000])
    with pytest.raises(UserError, match="no complete SQLite export"):
        read.read(str(path))
