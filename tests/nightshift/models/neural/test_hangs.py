"""A process that stops while others wait for it is named."""

import re
import subprocess
import sys
import time

import pytest

from nightshift.models.neural.hangs import ProcessReport, find_hang


def report(rank, idle=9.0, **operations):
    return ProcessReport(rank, f"host-{rank}", operations, "data.py:12 gather", idle)


def test_the_process_behind_in_a_group_is_named_with_the_operation_and_where_it_is():
    hang = find_hang(
        [report(0, all=(7, "all_reduce")), report(1, all=(6, "all_gather")), report(2, all=(7, "all_reduce"))]
    )

    assert str(hang) == (
        "in all_reduce number 7 wait rank 0, rank 2; not there: rank 1 on host-1, in data.py:12 gather, 9 s without an "
        "operation"
    )


def test_a_process_that_is_itself_held_up_is_not_blamed():
    hang = find_hang(
        [
            report(0, rows=(3, "all_reduce")),
            report(1, rows=(2, "all_reduce"), layers=(5, "all_gather")),  # waits for 2 in the second group
            report(2, layers=(4, "all_gather")),
        ]
    )

    assert [late.rank for late in hang.missing] == [2]


def test_nobody_is_named_where_all_have_entered_the_same_operations():
    assert find_hang([report(0, all=(7, "all_reduce")), report(1, all=(7, "all_reduce"))]) is None


@pytest.mark.slow
def test_a_training_ends_within_its_limit_and_names_the_process_that_stopped():
    module = ["--standalone", "--nproc-per-node", "2", "-m", "tests.nightshift.models.neural.stopping", "1"]
    command, began = [sys.executable, "-m", "torch.distributed.run", *module], time.monotonic()

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    assert done.returncode == 1
    assert re.search(r"the training hangs: in gloo:\w+ number \d+ wait rank 0; not there: rank 1 on ", done.stderr)
    assert "in stopping.py" in done.stderr
    assert time.monotonic() - began < 250  # the process would sleep for an hour
