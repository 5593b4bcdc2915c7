"""Machines that differ, or are slow, are named before a training."""

import subprocess
import sys

import pytest

from nightshift.models.neural.preflight import RankReport, find_faults

VERSIONS, VARIABLES = {"torch": "2.13.0"}, {"NCCL_SOCKET_IFNAME": "eth0"}


def machines(**changed):
    """Four like machines, of which the third is changed."""
    fields = {"versions": VERSIONS, "variables": VARIABLES, "flops": 600e12, "storage": 1e9, "skew": 0.01}
    alike = [{"rank": rank, "host": f"gpu-{rank}", "link": 40e9 if rank else None, **fields} for rank in range(4)]
    alike[2] |= changed
    return [RankReport(**fields) for fields in alike]


def test_nothing_is_wrong_with_machines_that_are_alike():
    assert list(find_faults(machines(), tolerance=0.2, bandwidth=30e9)) == []


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"flops": 400e12}, "rank 2 on gpu-2 multiplies at 400.00 TFLOP/s, below 480.00; replace it"),
        ({"link": 20e9}, "rank 2 on gpu-2 gets 20.00 GB/s from rank 1, below 32.00"),
        ({"versions": {"torch": "2.12.0"}}, "rank 2 on gpu-2 has torch 2.12.0, and rank 0 2.13.0; use one image"),
        ({"variables": {}}, "rank 2 on gpu-2 sets NCCL_SOCKET_IFNAME nothing, and rank 0 eth0; use one image"),
        ({"storage": "No such file: ckpt/preflight-1"}, "rank 2 on gpu-2 cannot share files: No such file"),
        ({"skew": -3.2}, "rank 2 on gpu-2 has a clock that is -3.2 s off; start chrony or ntpd on it"),
    ],
)
def test_the_machine_that_differs_is_named_with_what_to_do(changed, fault):
    (message,) = find_faults(machines(**changed), tolerance=0.2)

    assert message.startswith(fault)


def test_links_are_held_to_the_bandwidth_that_is_expected():
    assert len(list(find_faults(machines(), tolerance=0.2, bandwidth=50e9))) == 3


@pytest.mark.slow
def test_two_processes_examine_each_other(tmp_path):
    launcher = [sys.executable, "-m", "nightshift.models.neural", "--standalone", "--nproc-per-node", "2"]
    flags = [
        "-m",
        "nightshift.models.neural.preflight",
        "--device",
        "cpu",
        "--folder",
        str(tmp_path),
        "--tolerance",
        "0.999",
    ]

    done = subprocess.run([*launcher, *flags], capture_output=True, text=True, check=False, timeout=300)

    assert done.returncode == 0, done.stderr
    header, first, second, verdict = done.stdout.strip().splitlines()
    assert header.split()[:2] == ["rank", "host"]
    assert (first.split()[0], second.split()[0]) == ("0", "1")
    assert verdict == "nothing is wrong"
    assert list(tmp_path.iterdir()) == []
