"""`python -m nightshift_perf.run_rows REQUEST`: what processes do in a step of a training on the rows of a run.

The network is fitted as the training step does it, with the rows, the loader and the trainer that a night uses, until
it takes steps: these are measured, see `nightshift/models/neural/shares.py`. REQUEST has `device`, `config`, the URI
of the `features`, the logical `date`, the `candidate`, and an injected `fault`, empty for none.
"""

import sys
from functools import partial

import torch

from nightshift import tasks
from nightshift.config import parse
from nightshift.contracts import tables
from nightshift.data import splits
from nightshift.data.dates import parse_date
from nightshift.models.neural import processes, shares, simulated, trainer
from nightshift.models.neural.simulated import Request
from nightshift.models.neural.trainer import NetworkTraining
from nightshift.runtime.errors import UserError
from nightshift.tasks.base.training import TrainingSetup


def measure_run(request: Request, device: torch.device) -> None:
    """Measure a training with the rows of a run, and say it."""
    config = parse(request["config"])
    plan = splits.plan(config, parse_date(request["date"]))
    setup = TrainingSetup(config, plan, tables.read_table(request["features"]), device.type)
    with shares.one_core(device), processes.join_processes(device):
        sample = tasks.find(config.task.kind).training.read_rows(setup).sample(plan.test)
        with trainer.measure_next(partial(_measure_whole_batches, request["fault"])):
            sample.fit(request["candidate"])


def _measure_whole_batches(fault: str, training: NetworkTraining) -> None:
    rows, size = len(training.rows.labels) - training.rows.held_out, training.rows.size
    if rows < size:
        raise UserError(f"the run has {rows:,} rows to train on, fewer than a batch of {size:,}; give fewer --rows")
    shares.report_shares(fault, training)


if __name__ == "__main__":
    simulated.answer(sys.argv[1], measure_run)
