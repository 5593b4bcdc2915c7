"""The batch file for SLURM, with a `srun` that starts every machine's share here."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from components import training
from components.training.trainjob import LAUNCHER, STEP
from nightshift.models.neural.preemption import SHUTDOWN_SECONDS

SCRIPT = Path(training.__file__).with_name("train.sbatch")
SRUN = """#!/bin/bash
wait=60 kill=1 # as a cluster may have set it
while [[ $1 == --* ]]; do
  case $1 in --wait=*) wait=${1#*=} ;; --kill-on-bad-exit=*) kill=${1#*=} ;; esac
  shift
done
((kill == 0)) || exit 8 # it ends all others at once when one fails, and they save no checkpoint
((wait == 0)) || exit 9 # it ends all others so many seconds after the first has ended; with 0 it waits for them
code=0
for SLURM_NODEID in 0 1; do
  export SLURM_NODEID
  "$@" || code=$?
done
((code != 75)) || kill -TERM $PPID # a job that is preempted is told so with all its processes
exit $code
"""
SCONTROL = """#!/bin/bash
if [ "$1" = show ]; then printf 'first\\nsecond\\n'; else echo "$@"; fi
"""
PYTHON = """#!/bin/bash
echo "$PET_NODE_RANK of $PET_NNODES, $PET_NPROC_PER_NODE each, at $PET_MASTER_ADDR:$PET_MASTER_PORT: python $*"
exit {code}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("code", "queued"), [(0, []), (75, ["requeue 1234567"]), (2, [])])
def test_each_machine_starts_its_launcher_and_a_preempted_job_is_queued_again(
    tmp_path: Path, code: int, queued: list[str]
) -> None:
    for name, text in {"srun": SRUN, "scontrol": SCONTROL, "python": PYTHON.format(code=code)}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    job = {"JOB_ID": "1234567", "JOB_NUM_NODES": "2", "JOB_NODELIST": "node[1-2]", "GPUS_ON_NODE": "8"}
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CONTAINER": "env"}
    environment |= {f"SLURM_{name}": value for name, value in job.items()}
    command = ["bash", SCRIPT, "--config", '{"name": "a b"}']

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == code, done.stderr
    words = f'{" ".join(("python", *LAUNCHER, *STEP))} --config {{"name": "a b"}}'
    shares = [f"{rank} of 2, 8 each, at first:24567: {words}" for rank in (0, 1)]
    assert done.stdout.splitlines() == shares + queued


def test_a_job_is_told_in_time_and_may_be_queued_again_and_starts_one_launcher_on_a_machine_of_its_own() -> None:
    text = SCRIPT.read_text()
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)=?(\S*)$", text, re.MULTILINE))
    name, _, seconds = options.pop("signal").partition("@")

    assert options == {
        "job-name": "nightshift-training",
        "ntasks-per-node": "1",
        "exclusive": "",
        "requeue": "",
        "open-mode": "append",
    }
    # to the steps too, and not to the script alone (B:TERM)
    assert name == "TERM" and int(seconds) > SHUTDOWN_SECONDS
