"""Public traces: what is said first of each, as a person labeled it, and figures that others computed.

They are in no repository of ours: check out the repositories that `corpus.tsv` names side by side in one folder, some
at a commit that has the file (Kineto's samples are of 2021), and name that folder in NIGHTSHIFT_TRACES. Those held out
were labeled before anything here had seen them.
"""

import csv
import functools
import os
from dataclasses import replace
from pathlib import Path

import pytest

from nightshift_perf.traces import breakdown, processes, read
from nightshift_perf.traces.analysis import Known, analyze
from nightshift_perf.traces.timeline import NOTHING

FOLDER = os.environ.get("NIGHTSHIFT_TRACES", "")
GOAL = 0.9
pytestmark = pytest.mark.skipif(not FOLDER, reason="NIGHTSHIFT_TRACES names no folder with public traces")


def rows():
    with Path(__file__).with_name("corpus.tsv").open(newline="") as file:
        listed = list(csv.DictReader(file, delimiter="\t"))
    paths = [Path(FOLDER, row["repository"].split("/")[1], row["file"]) for row in listed]
    return [(row, path) for row, path in zip(listed, paths, strict=True) if path.exists()]


@functools.cache
def profile(path):
    return analyze([read.read(str(path))], Known())


@pytest.mark.parametrize("held_out", ["", "yes"])
def test_what_is_said_first_is_what_a_person_says(held_out):
    labels = {path: row["first cause"] for row, path in rows() if row["held out"] == held_out}
    first = {path: profile(path).diagnosis[0].title for path in labels}
    wrong = {str(path): first[path] for path, label in labels.items() if first[path] != label}
    assert len(wrong) <= (1 - GOAL) * len(labels), wrong


def test_figures_agree_with_an_independent_sweep():
    apart = {}
    for row, path in rows():
        if row["busy, %"]:
            measured = (profile(path).gpu_busy_pct, profile(path).exposed_communication_pct)
            wanted = (float(row["busy, %"]), float(row["exposed communication, %"]))
            if measured != pytest.approx(wanted, abs=0.011):
                apart[row["file"]] = (measured, wanted)
    assert not apart


def test_busy_times_agree_with_the_tables_of_tracelens():
    for row, path in rows():
        if row["busy, ms by TraceLens"]:
            trace = max(processes.split(read.read(str(path))), key=lambda part: len(part.work))
            one = breakdown.measure(replace(trace, steps=NOTHING), trace.devices[0])
            wanted = (float(row["busy, ms by TraceLens"]), float(row["total, ms by TraceLens"]))
            assert (one.busy / 1000, one.length / 1000) == pytest.approx(wanted, rel=2e-4, abs=0.03), row["file"]
