"""What `nightshift perf plan --write` has written, put into the config of a use case; or a stand-in for it in small."""

import math
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from nightshift import tasks
from nightshift.config import Config, parse
from nightshift.config.neural import Trainer
from nightshift.config.section import ConfigSection, Parameter
from nightshift.runtime import strict_yaml
from nightshift.runtime.errors import UserError
from pipelines import configs

SMALL = "-small"  # end of a stand-in's name, so that it shares nothing with the use case
FEW = 8  # processes of a stand-in, unless its layout takes more of them
PROCESSES = 32  # of a stand-in at most
DAYS = {"train_days": 4, "test_days": 2}  # at most, of a stand-in


class PlannedFigures(ConfigSection):
    """What a planner expects of a training on its machines."""

    model: str
    gpu: str
    parameters: int
    nodes: int
    gpus_per_node: int
    memory_bytes: float
    states_bytes: float
    activations_bytes: float
    step_seconds: float
    bubble: float = Field(description="share of a step in which the stages of a pipeline wait")
    throughput_per_gpu: float
    throughput_unit: str


class PlanFile(ConfigSection):
    """A plan of a training."""

    trainer: Trainer = Field(description="the config's task.trainer")
    network: dict[str, Parameter] = Field(description="parameters of the network that is trained")
    planned: PlannedFigures
    launch: str = Field(description="the command on each machine")

    @property
    def processes(self) -> int:
        """One for each GPU."""
        return self.planned.nodes * self.planned.gpus_per_node


def load(file: str) -> PlanFile:
    """Read a plan.

    Raises:
        UserError: when there is none, or it is not as one is written.
    """
    if not Path(file).is_file():
        raise UserError(f"plan {file!r} does not exist; write one with: nightshift perf plan --write {file}")
    try:
        return PlanFile.parse_value(strict_yaml.load(Path(file).read_bytes(), f"plan {file}"))
    except ValidationError as error:
        wrong = error.errors()[0]
        field = ".".join(map(str, wrong["loc"])) or "its content"
        raise UserError(
            f"plan {file}: {field}: {wrong['msg']}; write it again with: nightshift perf plan --write"
        ) from None


def apply(config: dict[str, Any], plan: PlanFile) -> dict[str, Any]:
    """Return a config whose network is trained as planned.

    Raises:
        UserError: when it has no network, or several.
    """
    use_case = parse(config)
    name, candidate = _find_network(use_case)
    parameters = {**candidate.parameters, **plan.network}
    return _replace(use_case, name, parameters, plan.trainer).model_dump(mode="json", exclude_none=True)


def scale_down(config: dict[str, Any], plan: PlanFile) -> dict[str, Any]:
    """Return a stand-in for a planned training: the same layout, a process a GPU, on this machine.

    Its network, batches and days are small, its numbers float32, nothing is compiled, and its name is its own.

    Raises:
        UserError: when the config's task has no stand-in.
    """
    use_case = parse(config)
    trainer = plan.trainer.model_copy(update={"nodes": 1, "processes": _count_small_processes(plan)})
    name, candidate = _find_network(use_case)
    parameters = {**candidate.parameters, **plan.network}
    batch = {"batch_size": _count_small_batch(trainer, parameters)}
    fit = {"precision": "float32", "compile": "none", "epochs": 1, "threads": 1}
    whole = _replace(use_case, name, parameters | batch | fit, trainer)
    small = tasks.find(whole.task.kind).training.scale_down(whole.task, trainer)
    days = {field: min(limit, getattr(whole.protocol, field)) for field, limit in DAYS.items()}
    changed = {"name": whole.name + SMALL, "task": small, "protocol": whole.protocol.model_copy(update=days)}
    return whole.model_copy(update=changed).model_dump(mode="json", exclude_none=True)


def load_planned(name_or_file: str, plan_file: str, is_small: bool) -> dict[str, Any]:
    """Return a config by its name with a plan in it, or its stand-in."""
    config, plan = configs.load(name_or_file), load(plan_file)
    return scale_down(config, plan) if is_small else apply(config, plan)


def _count_small_processes(plan: PlanFile) -> int:
    """Return how many processes have the layout: as many replicas as planned, or fewer.

    Raises:
        UserError: when a machine does not hold as many.
    """
    sharing = plan.trainer.sharing
    processes = min(plan.processes, sharing * max(1, FEW // sharing))
    if processes > PROCESSES:
        raise UserError(
            f"--scale-down: the plan's layout takes {processes} processes on this machine, and {PROCESSES} are the "
            "most; plan fewer GPUs: nightshift perf plan --write"
        )
    return processes


def _count_small_batch(trainer: Trainer, parameters: dict[str, Any]) -> int:
    """Return the rows of a batch with one row a micro-batch."""
    assert trainer.processes
    together = trainer.pipeline * trainer.tensor * trainer.context
    return math.ceil(trainer.processes / together) * int(parameters.get("microbatches", 1))


def _find_network(config: Config) -> tuple[str, Any]:
    networks = tasks.find(config.task.kind).training.networks(config.task)
    if len(networks) != 1:
        raise UserError(
            f"a plan is for one network, and {config.name} has {', '.join(networks) or 'none'}; "
            "leave out the others of task.candidates"
        )
    return next(iter(networks.items()))


def _replace(config: Config, name: str, parameters: dict[str, Any], trainer: Trainer) -> Config:
    """Return a config with other parameters of a candidate and another trainer, checked."""
    value = config.model_dump(mode="json", exclude_none=True)
    value["task"]["candidates"][name]["parameters"] = parameters
    value["task"]["trainer"] = trainer.model_dump(mode="json", exclude_none=True)
    return parse(value)
