"""The command that computes the memory, time and cost of a training or of serving before it runs."""

import argparse
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from nightshift.runtime.errors import UserError
from nightshift.stats.figures import format_value
from nightshift_perf.cli import serving_plan
from nightshift_perf.contracts import PlannerAccuracy, PublishedPrediction, TrainingPlan
from nightshift_perf.hardware import gpu, gpus
from nightshift_perf.planning import published, search
from nightshift_perf.planning.efficiency import efficiency
from nightshift_perf.planning.layout import Checkpointing, Cluster, ParallelLayout, TrainerKind
from nightshift_perf.planning.memory import GIB
from nightshift_perf.planning.models import Convolutions, Model, Transformer, preset
from nightshift_perf.planning.search import LayoutPlan
from nightshift_perf.planning.serving import shapes
from pipelines.cli import options

if TYPE_CHECKING:
    from rich.table import Table

    from pipelines.configs.plans import PlanFile

SIZES = {
    "layers": "number of transformer layers",
    "hidden": "width of the hidden states",
    "heads": "number of attention heads",
    "groups": "number of key and value heads",
    "feed_forward": "width of the feed-forward layers",
    "vocabulary": "number of tokens in the vocabulary",
    "sequence": "tokens per sample",
}
ADAPTERS = {
    "lora_rank": "rank of LoRA's adapters, trained beside frozen matrices (default: 0, everything is trained)",
    "lora_bits": "bits of the frozen matrices: 4 for QLoRA (default: 32, what the trainer keeps weights in)",
}
STRATEGY = {
    "micro_batch": "samples that a GPU computes at once",
    "tensor": "GPUs that share a layer",
    "context": "GPUs that share a sequence",
    "pipeline": "number of pipeline stages",
    "interleave": "chunks of layers per pipeline stage",
    "zero": "ZeRO stage, 0 to 3",
    "shard": "GPUs that share a copy of the states with ZeRO stage 3, fewer than all replicas for HSDP",
}


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "plan", plan.__doc__)
    command.add_argument("--published", action="store_true", help="compare the planner with published figures and exit")
    command.add_argument(
        "--model",
        default="custom",
        help="preset of the model, such as llama3-8b, gpt-175b, bert-base or resnet50 (default: custom); "
        "or a config.json",
    )
    for name, text in SIZES.items():
        command.add_argument(_flag(name), type=int, help=f"{text} (default: the preset's)")
    for name, text in ADAPTERS.items():
        command.add_argument(_flag(name), type=int, choices=(4, 32) if name == "lora_bits" else None, help=text)
    command.add_argument("--gpu", help=f"GPU model: one of {', '.join(gpus())}")
    command.add_argument("--nodes", type=int, default=1, help="number of machines (default: 1)")
    command.add_argument("--gpus-per-node", type=int, default=8, help="GPUs per machine (default: 8)")
    command.add_argument(
        "--network", type=float, default=400, help="bandwidth between a GPU and other nodes in Gbit/s (default: 400)"
    )
    command.add_argument(
        "--trainer",
        choices=list(TrainerKind),
        help="whose memory and layouts to plan: Nightshift's own, or a published trainer's (default: native)",
    )
    command.add_argument("--batch", type=int, help="global batch size in samples")
    for name, text in STRATEGY.items():
        command.add_argument(_flag(name), type=int, help=f"{text} (default: search all)")
    command.add_argument(
        "--checkpointing",
        choices=list(Checkpointing),
        help="activations to recompute in the backward pass (default: search all)",
    )
    command.add_argument(
        "--copies",
        type=int,
        default=0,
        help="copies of the trained weights that Nightshift's trainer keeps: one for keep: best, one for ema_decay "
        "(default: 0)",
    )
    command.add_argument(
        "--precision", help="precision of the matrix products (default: bf16; with --serve: search all)"
    )
    command.add_argument(
        "--samples", type=float, help="samples per epoch; prints an epoch's hours and, with a price, its cost"
    )
    command.add_argument("--usd-per-gpu-hour", type=float, help="price of one GPU in USD per hour")
    command.add_argument(
        "--write",
        metavar="PATH",
        help="YAML file to write the plan to, with a TrainJob and a SLURM batch file beside it; with --serve a folder "
        "for the files of a Kubernetes deployment",
    )
    serving_plan.add(command)
    options.add_json(command, "training_plan", "planner_accuracy", "serving_plan")
    command.set_defaults(command=plan)


def plan(args: argparse.Namespace) -> int:
    """Compute memory, time and cost of a training or of serving, or propose the best that fits."""
    from rich.console import Console

    if args.serve:
        _refuse_training(args)
        return serving_plan.run(args)
    if args.published:
        if args.json:
            return options.print_document(describe_accuracy())
        Console().print(accuracy())
        return 0
    proposal = _make_plan(args)
    described = describe_plan(proposal, args.model, args.samples, args.usd_per_gpu_hour)
    files = write_plan(proposal, described, Path(args.write)) if args.write else []
    if args.json:
        return options.print_document(described)
    Console().print(_table(described))
    options.say(f"layout   {search.flags(proposal.layout)}")
    if files:
        options.say(f"plan     {', '.join(map(str, files))}")
    return 0


def describe_accuracy() -> PlannerAccuracy:
    """Return the published figures beside the planner's as a document."""
    points = published.points()
    return PlannerAccuracy(
        figures=[PublishedPrediction.model_validate(point, from_attributes=True) for point in points]
    )


def describe_plan(
    plan: LayoutPlan, model: str, samples: float | None = None, usd_per_gpu_hour: float | None = None
) -> TrainingPlan:
    """Return a plan as a document.

    Args:
        plan: layout with its memory and timing.
        model: name of the model's preset.
        samples: samples per epoch.
        usd_per_gpu_hour: price of one GPU in USD per hour.
    """
    memory, time, cluster = plan.memory, plan.timing, plan.cluster
    error = published.stated_error()
    hours = plan.hours(samples) if samples else None
    usd = None if hours is None or usd_per_gpu_hour is None else hours * cluster.gpus * usd_per_gpu_hour
    return TrainingPlan(
        model=model,
        gpu=cluster.gpu.name,
        gpus=cluster.gpus,
        parameters=plan.model.parameters,
        layout=_describe_layout(plan),
        memory_bytes=memory.total,
        states_bytes=memory.states,
        activations_bytes=memory.activations,
        gpu_memory_bytes=cluster.gpu.memory,
        step_seconds=time.step,
        throughput_per_gpu=plan.throughput,
        throughput_unit="tokens" if plan.model.tokens > 1 else "samples",
        mfu=plan.mfu,
        bubble_share=time.bubble / time.step,
        exposed_communication_share=time.communication / time.step,
        architecture=cluster.gpu.architecture,
        fitted=efficiency(cluster.gpu).is_fitted,
        error_median=error.median,
        error_p90=error.tail,
        epoch_hours=hours,
        epoch_usd=usd,
    )


def accuracy() -> "Table":
    """Return the published figures beside the planner's."""
    from rich.table import Table

    table = Table("published", "figure", "planner", "error", "unseen", title="The planner against published figures")
    for point in published.points():
        table.add_row(*point.cells)
    return table


def write_plan(plan: LayoutPlan, described: TrainingPlan, file: Path) -> list[Path]:
    """Write what the trainer runs a plan by, and a TrainJob and a SLURM batch file beside it; return the files.

    Raises:
        UserError: when another trainer was planned.
    """
    from nightshift_perf.planning import launching

    trainjob, batch_file = file.with_suffix(".trainjob.yaml"), file.with_suffix(".sbatch")
    summary = summarize_plan(plan, described).model_dump(mode="json", exclude_defaults=True)
    texts = {
        file: yaml.safe_dump(summary, sort_keys=False, width=120),
        trainjob: launching.write_trainjob(plan, described.model, trainjob.name),
        batch_file: launching.write_batch_file(plan, batch_file.name),
    }
    for path, text in texts.items():
        path.write_text(text)
    return list(texts)


def summarize_plan(plan: LayoutPlan, described: TrainingPlan) -> "PlanFile":
    """Return the config's sections, the planned figures and the command that starts a node's processes."""
    from nightshift_perf.planning import launching
    from pipelines.configs.plans import PlanFile, PlannedFigures

    cluster = plan.cluster
    own = {"nodes": cluster.nodes, "gpus_per_node": cluster.per_node, "bubble": described.bubble_share}
    return PlanFile(
        trainer=launching.describe_trainer(plan),
        network=launching.describe_fit(plan),
        planned=PlannedFigures(**described.model_dump(include=set(PlannedFigures.model_fields)), **own),
        launch=launching.describe_launch(plan),
    )


def _describe_layout(plan: LayoutPlan) -> dict[str, Any]:
    layout = {name: str(value) if isinstance(value, StrEnum) else value for name, value in asdict(plan.layout).items()}
    return layout | {"data": plan.layout.data(plan.cluster), "micro_batches": plan.layout.micro_batches(plan.cluster)}


def _refuse_training(args: argparse.Namespace) -> None:
    names = ["batch", "trainer", "checkpointing", "samples", "usd_per_gpu_hour", *SIZES, *ADAPTERS, *STRATEGY]
    flags = [_flag(name) for name in names if name != "tensor" and getattr(args, name) is not None]
    if flags:
        raise UserError(f"{', '.join(flags)} describe a training; leave them out with --serve")


def _make_plan(args: argparse.Namespace) -> LayoutPlan:
    if not args.gpu or not args.batch:
        raise UserError(f"plan needs --gpu (one of {', '.join(gpus())}) and --batch")
    cluster = Cluster(gpu(args.gpu), args.nodes, args.gpus_per_node, args.network / 8 * 1e9)
    if cluster.gpus < 1 or args.batch < 1 or args.network <= 0:
        raise UserError("nodes, gpus-per-node, batch and network have to be above 0")
    trainer = TrainerKind(args.trainer or TrainerKind.NATIVE)
    like = ParallelLayout(
        args.batch,
        sequence_parallel=trainer is not TrainerKind.NATIVE,
        precision=args.precision or "bf16",
        trainer=trainer,
        copies=args.copies,
    )
    strategy: dict[str, Any] = {name: getattr(args, name) for name in STRATEGY if getattr(args, name) is not None}
    if args.checkpointing:
        strategy["checkpointing"] = Checkpointing(args.checkpointing)
    return search.propose_plan(_model(args), cluster, replace(like, **strategy), strategy)


def _model(args: argparse.Namespace) -> Model:
    model = _read_model(args)
    adapters = {name: getattr(args, name) for name in ADAPTERS if getattr(args, name) is not None}
    if adapters and (isinstance(model, Convolutions) or not adapters.get("lora_rank", 0) > 0):
        raise UserError(
            "--lora-rank and --lora-bits are for transformers, with a rank above 0; change or leave them out"
        )
    return replace(model, **adapters)


def _read_model(args: argparse.Namespace) -> Model:
    sizes: dict[str, Any] = {name: getattr(args, name) for name in SIZES if getattr(args, name) is not None}
    if shapes.find_config(args.model):
        if not args.sequence:
            raise UserError(
                f"--sequence is missing: {args.model} says how many tokens a row may have, not how many it has"
            )
        return replace(shapes.read_shape(args.model), **sizes)
    if args.model != "custom":
        return preset(args.model, **sizes)
    missing = [_flag(name) for name in SIZES if name not in sizes and name not in ("groups", "feed_forward")]
    if missing:
        raise UserError(f"give --model a preset, or all sizes of the model; {', '.join(missing)} missing")
    return Transformer(**{"feed_forward": 4 * sizes["hidden"], **sizes})


def _table(plan: TrainingPlan) -> "Table":
    from rich.table import Table

    table = Table("", "", title=f"{plan.model} on {plan.gpus} x {plan.gpu}", show_header=False)
    for name, value in _facts(plan).items():
        table.add_row(name, value)
    return table


def _facts(plan: TrainingPlan) -> dict[str, str]:
    parts = f"{plan.states_bytes / GIB:.1f} states, {plan.activations_bytes / GIB:.1f} activations"
    facts = {
        "trainer": plan.layout["trainer"],
        "parameters": f"{plan.parameters / 1e9:,.3g} billion",
        "memory a GPU": f"{plan.memory_bytes / GIB:.1f} of {plan.gpu_memory_bytes / GIB:.1f} GiB ({parts})",
        "step": f"{plan.step_seconds:.4g} s",
        "throughput": f"{plan.throughput_per_gpu:,.0f} {plan.throughput_unit}/s a GPU",
        "MFU": format_value(plan.mfu, "percent"),
        "pipeline bubble": format_value(plan.bubble_share, "percent"),
        "communication": f"{format_value(plan.exposed_communication_share, 'percent')} not hidden",
    }
    shares = [format_value(share, "percent") for share in (plan.error_median, plan.error_p90)]
    facts["error of speed"] = f"half of published trainings within {shares[0]}, 9 of 10 within {shares[1]}"
    if not plan.fitted:
        facts["caveat"] = f"no data for {plan.architecture}, so Ampere's shares of the peaks are used"
    if plan.epoch_hours is not None:
        facts["epoch"] = f"{plan.epoch_hours:,.4g} h"
    if plan.epoch_usd is not None:
        facts["cost of an epoch"] = f"{plan.epoch_usd:,.2f} USD"
    return facts


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
