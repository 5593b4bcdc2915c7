"""A plan as Nightshift's trainer runs it: the config's sections, and what starts its processes on a cluster."""

import re
import shlex
from importlib import resources
from typing import Any

import yaml

from components import training
from components.training.component import training as step
from components.training.trainjob import LAUNCHER, STEP, TrainJobWork
from nightshift.config.neural import Compile, PipelineSchedule, Precision, Trainer
from nightshift.runtime.errors import UserError
from nightshift_perf.planning.layout import TrainerKind
from nightshift_perf.planning.search import LayoutPlan

# the trainer's float32 takes TF32 where a network convolves
PRECISIONS = {
    "bf16": Precision.BF16,
    "fp16": Precision.FP16,
    "fp32": Precision.FLOAT32,
    "tf32": Precision.FLOAT32,
}
BATCH_COMMAND = "sbatch --nodes 2 --gpus-per-node 8 components/training/train.sbatch"  # in its usage
FIXED = {"device": "cuda"}  # the step's flags that a plan knows
TRAINJOB_USAGE = """\
# The training step's flags come from a config map, whose config has this plan's layout:
#
#     kubectl create configmap {name} --from-file=config=config.json {literals}
#     kubectl apply -f {file}
#
# The pods are those of the runtime `nightshift`, whose machines have {per_node} GPUs each.
"""


def describe_trainer(plan: LayoutPlan) -> Trainer:
    """Return the config's `task.trainer`.

    Raises:
        UserError: when another trainer was planned.
    """
    layout, cluster = plan.layout, plan.cluster
    if layout.trainer is not TrainerKind.NATIVE:
        raise UserError(
            f"a plan of --trainer {layout.trainer} is not one that Nightshift's trainer runs; leave out --trainer"
        )
    return Trainer(
        nodes=cluster.nodes,
        processes=cluster.per_node,
        shard=layout.shards(cluster) if layout.zero == 3 else 1,
        context=layout.context,
        tensor=layout.tensor,
        pipeline=layout.pipeline,
        schedule=PipelineSchedule.ONE_F_ONE_B if layout.interleave == 1 else PipelineSchedule.INTERLEAVED,
        zero=2 if layout.zero == 2 else 0,
    )


def describe_fit(plan: LayoutPlan) -> dict[str, Any]:
    """Return what a plan says of a candidate's `parameters`, fields of its kind and `nightshift.config.neural.Fit`."""
    layout, model = plan.layout, plan.model
    return {
        "batch_size": layout.batch,
        "microbatches": layout.micro_batches(plan.cluster),
        "precision": PRECISIONS[layout.precision].value,
        "recompute": layout.checkpointing.value,
        "compile": (Compile.DEFAULT if layout.fused else Compile.NONE).value,
        **({"lora_rank": model.lora_rank, "lora_bits": model.lora_bits} if model.lora_rank else {}),
    }


def describe_launch(plan: LayoutPlan) -> str:
    """Return the command that starts a node's processes; the step's flags follow."""
    cluster = plan.cluster
    options = ["python", *LAUNCHER, "--nproc-per-node", str(cluster.per_node)]
    if cluster.nodes == 1:
        return shlex.join([*options, "--standalone", *STEP])
    meeting = "PET_MASTER_ADDR=FIRST_NODE PET_MASTER_PORT=29500 PET_NODE_RANK=RANK"
    return f"{meeting} {shlex.join([*options, '--nnodes', str(cluster.nodes), *STEP])}"


def build_trainjob(plan: LayoutPlan, name: str) -> dict[str, Any]:
    """Return a TrainJob whose flags come from the config map of its name."""
    name = to_object_name(name)
    flags = [field.name for field in step.flags]
    words = [word for flag in flags for word in (f"--{flag}", FIXED.get(flag, f"$({flag.upper()})"))]
    body = TrainJobWork(tuple(words), plan.cluster.nodes, processes=plan.cluster.per_node).body
    body["metadata"] = {"name": name, "labels": body["metadata"]["labels"]}
    body["spec"]["trainer"] |= {
        "env": [
            {"name": flag.upper(), "valueFrom": {"configMapKeyRef": {"name": name, "key": flag}}}
            for flag in flags
            if flag not in FIXED
        ],
    }
    return body


def write_trainjob(plan: LayoutPlan, name: str, file: str) -> str:
    """Return the manifest of `build_trainjob` with how it is used."""
    literals = [field.name for field in step.flags if field.name not in (*FIXED, "config")]
    usage = TRAINJOB_USAGE.format(
        name=to_object_name(name),
        literals=" ".join(f"--from-literal={flag}=..." for flag in literals),
        file=file,
        per_node=plan.cluster.per_node,
    )
    return usage + yaml.safe_dump(build_trainjob(plan, name), sort_keys=False)


def write_batch_file(plan: LayoutPlan, file: str) -> str:
    """Return the SLURM batch file of the training step, for the plan's machines."""
    machines = f"#SBATCH --nodes={plan.cluster.nodes}\n#SBATCH --gpus-per-node={plan.cluster.per_node}\n"
    text = resources.files(training).joinpath("train.sbatch").read_text().replace(BATCH_COMMAND, f"sbatch {file}")
    return text.replace("#SBATCH", f"{machines}#SBATCH", 1)


def to_object_name(name: str) -> str:
    """Return a name of an object of Kubernetes (RFC 1123)."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "training"
