"""Metrics of kernels as `ncu --csv --page raw` writes them."""

import csv
import io

import pytest

from nightshift.runtime.errors import UserError
from nightshift_perf.traces import compute, read

UNITS = {compute.TIME: "usecond", compute.BYTES: "Mbyte"}


def report(rows, units=UNITS, columns=compute.METRICS, before="==PROF== Connected to process 42\n"):
    names = ["ID", "Process ID", compute.NAME, *columns]
    text = io.StringIO()
    table = csv.DictWriter(text, names, quoting=csv.QUOTE_ALL, restval="")
    table.writeheader()
    table.writerow(dict.fromkeys(columns, "inst") | dict.fromkeys(names[:3], "") | units)
    table.writerows(row | {"ID": str(number), "Process ID": "42"} for number, row in enumerate(rows))
    return before + text.getvalue()


def test_operations_bytes_and_time_of_a_kernel_are_summed(tmp_path):
    ffma = "sm__sass_thread_inst_executed_op_ffma_pred_on.sum"
    fadd = "sm__sass_thread_inst_executed_op_fadd_pred_on.sum"
    row = {compute.NAME: "sgemm", compute.TIME: "10.5", compute.BYTES: "2", ffma: "1,000,000", fadd: "500"}
    path = tmp_path / "kernels.csv"
    path.write_text(report([row, row, {compute.NAME: "copy", compute.TIME: "1", compute.BYTES: "0.5"}]))

    sgemm, copy = read.read(str(path))

    assert (sgemm.name, sgemm.flops, sgemm.bytes, sgemm.time) == ("sgemm", 2 * 2_000_500, 4e6, 21)
    assert (copy.name, copy.flops, copy.bytes, copy.time) == ("copy", 0, 5e5, 1)


def test_tensor_cores_are_counted_by_operations_and_else_by_instructions():
    base = {compute.NAME: "gemm", compute.TIME: "1", compute.BYTES: "1", compute.TENSOR_INSTRUCTIONS: "10"}
    (by_instructions,) = compute.read(iter(report([base]).splitlines(keepends=True)), "x.csv")
    assert (by_instructions.flops, by_instructions.tensor_flops) == (10 * 512, 10 * 512)
    known = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
    text = report([base | {known: "7000"}], columns=[*compute.METRICS, known])
    (by_operations,) = compute.read(iter(text.splitlines(keepends=True)), "x.csv")
    assert by_operations.flops == 7000


@pytest.mark.parametrize(("unit", "microseconds"), [("nsecond", 0.003), ("us", 3), ("ms", 3000), ("second", 3e6)])
def test_times_come_in_several_units(unit, microseconds):
    text = report([{compute.NAME: "a", compute.TIME: "3", compute.BYTES: "1"}], units=UNITS | {compute.TIME: unit})
    (one,) = compute.read(iter(text.splitlines(keepends=True)), "x.csv")
    assert one.time == pytest.approx(microseconds)


ROW = {compute.NAME: "a", compute.TIME: "3", compute.BYTES: "1"}
WRONG = {
    "no table": "==PROF== nothing\n",
    "a missing column": report([], units={}, columns=[compute.TIME]),
    "no number": report([ROW | {compute.TIME: "soon"}]),
    "an unknown unit": report([ROW], units=UNITS | {compute.TIME: "fortnight"}),
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_another_report_is_refused_with_the_command_that_writes_one(text):
    with pytest.raises(UserError, match="ncu --launch-count 20 --csv --page raw"):
        compute.read(iter(text.splitlines(keepends=True)), "kernels.csv")
