"""Pages with plans of shipped sizes: `python -m nightshift.planning.pages docs/plans` writes them anew."""

import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from nightshift.costs.prices import Machine, read_machines
from nightshift.figures import format_value
from nightshift.hardware import gpu
from nightshift.planning import search
from nightshift.planning.layout import Checkpointing, Cluster, ParallelLayout
from nightshift.planning.memory import GIB
from nightshift.planning.models import preset
from nightshift.planning.search import LayoutPlan
from nightshift.planning.serving.batching import RequestLength, operate
from nightshift.planning.serving.fleet import Demand, FleetPlan, FleetSearch, Objective, list_replicas, plan_fleets
from nightshift.planning.serving.shapes import read_shape

WIDTH = 120
MACHINES = ("p4de.24xlarge", "p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge")
NETWORK = 50 / 8 * 1e9  # bytes/s of a GPU of a p4de.24xlarge, whose 8 share 400 Gbit/s
REQUEST = RequestLength(1024, 256)
RATE = 100  # requests per second
OBJECTIVE = Objective(first_token=0.5, token=0.05)
LIMITS = (0.3, 0.5, 1.0, 2.0)  # seconds to the first token
PROMPTS = (256, 1024, 2048, 4096)  # tokens
FLEET_COLUMNS = (
    *("GPU", "market", "machines", "replicas", "in flight", "first token alone", "in the mean", "99 %"),
    *("further token", "tokens/s per GPU", "USD/h", "USD/M tokens"),
)
LAYOUT_COLUMNS = (
    *("layout", "GiB per GPU", "states", "activations", "micro-batches", "step", "bubble", "communication", "MFU"),
    *("tokens/s per GPU", "USD per billion tokens"),
)
FULL, SELECTIVE = Checkpointing.FULL, Checkpointing.SELECTIVE
TEN, THIRTEEN = (ParallelLayout(batch=batch, native=True, sequence_parallel=False) for batch in (64, 1024))
# the layouts of the shipped configs; processes next to each other share a layer, or parameters, and stages come last
CHOSEN = {
    "llama-10b": "FSDP in the node, PP 2 across, half recomputed",
    "llama-13b": "TP 2 in the node, PP 4 across, replicas",
}
# size -> cluster, and what is compared on it
TRAININGS: dict[str, tuple[Cluster, dict[str, ParallelLayout]]] = {
    "llama-10b": (
        Cluster(gpu("a100-80gb"), 2, 4, NETWORK),
        {
            "replicas (DDP)": replace(TEN, checkpointing=FULL),
            "ZeRO-2": replace(TEN, zero=2, checkpointing=FULL),
            "FSDP": replace(TEN, zero=3, checkpointing=FULL),
            "HSDP, shards in the node": replace(TEN, zero=3, shard=4, checkpointing=FULL),
            "TP 4 in the node": replace(TEN, tensor=4),
            "FSDP in the node, PP 2 across, all recomputed": replace(
                TEN, zero=3, shard=4, pipeline=2, checkpointing=FULL
            ),
            "FSDP in the node, PP 2 across, half recomputed": replace(
                TEN, zero=3, shard=4, pipeline=2, checkpointing=SELECTIVE
            ),
        },
    ),
    "llama-13b": (
        Cluster(gpu("a100-80gb"), 8, 8, NETWORK),
        {
            "replicas (DDP)": replace(THIRTEEN, checkpointing=FULL),
            "ZeRO-2": replace(THIRTEEN, zero=2, checkpointing=FULL),
            "ZeRO-3 (FSDP)": replace(THIRTEEN, zero=3, checkpointing=FULL),
            "ZeRO-3, 4 samples at once": replace(THIRTEEN, zero=3, micro_batch=4, checkpointing=FULL),
            "HSDP, shards in the node": replace(THIRTEEN, zero=3, shard=8, checkpointing=SELECTIVE),
            "TP 8 in the node": replace(THIRTEEN, tensor=8),
            "TP 8 in the node, PP 8 across": replace(THIRTEEN, tensor=8, pipeline=8),
            "TP 4 in the node, PP 2 across, replicas": replace(THIRTEEN, tensor=4, pipeline=2),
            "TP 2 in the node, PP 4 across, replicas": replace(THIRTEEN, tensor=2, pipeline=4),
            "TP 8 in the node, HSDP 2 across": replace(THIRTEEN, tensor=8, zero=3, shard=2),
            "TP 8 in the node, FSDP across": replace(THIRTEEN, tensor=8, zero=3),
        },
    ),
}


def write_serving() -> Iterator[str]:
    """Yield the lines of the page about a model of 70B."""
    fleets = _plan(REQUEST, OBJECTIVE)
    yield "# Serving 70B: what 100 requests/s under 500 ms can mean\n"
    yield _paragraph(
        "An explanation for those who are asked for it: Llama 3.1 70B, prompts of 1,024 tokens, answers of 256, 100 "
        "requests/s at random moments. `nightshift plan --serve` computes it; [planning.md](../planning.md) says how, "
        "and how far to trust it. No GPU of ours has served this model. Written by `make compile`."
    )
    yield _explain_limit()
    yield "\n## The cheapest fleet of each GPU\n"
    yield _paragraph(
        "The first token comes within 500 ms for 99 % of the requests, further tokens within 50 ms in the mean. "
        f"Machines are whole. Prices are of {_dates(fleets)}: **refresh them before you decide**, above all those of "
        "spot machines."
    )
    yield from _table(FLEET_COLUMNS, map(_describe_fleet, fleets.cheapest.values()))
    yield "\n" + _paragraph(
        "No fleet has a spare replica: add one for failures, and on spot machines as many as may be taken away at once."
    )
    yield "## What was rejected\n"
    yield from (f"- {rejection}." for rejection in fleets.rejections)
    yield "\nThese serve it too, on demand, and cost as much as the cheapest of the same GPU or more:\n"
    yield from (f"- {_describe_dearer(plan)}" for plan in fleets.plans if _is_dearer(plan, fleets))
    yield "\n## What the promise costs\n"
    yield "US dollars per million output tokens, on demand; a dash where no replica of that GPU can keep the promise.\n"
    yield from _compare("99 % of first tokens within", [(f"{limit:g} s", REQUEST, limit) for limit in LIMITS])
    yield ""
    yield from _compare("prompt", [(f"{prompt:,} tokens", RequestLength(prompt, 256), 0.5) for prompt in PROMPTS])


def write_training(name: str) -> Iterator[str]:
    """Yield the lines of the page about a training of a shipped size."""
    model, (cluster, layouts) = preset(name), TRAININGS[name]
    like = next(iter(layouts.values()))
    yield f"# Training {name}: {cluster.nodes} nodes of {cluster.per_node} A100 with 80 GB\n"
    yield _paragraph(
        f"An explanation for those who choose a layout: {model.parameters / 1e9:.1f} billion parameters, "
        f"{model.tokens:,} tokens per sequence, {like.batch * model.tokens:,} tokens per step, BF16, 50 Gbit/s between "
        "a GPU and other nodes. `nightshift plan` computes it; [planning.md](../planning.md) says how, and how far to "
        "trust it. No GPU of ours has run it. Dollars are those of a GPU of `p4de.24xlarge` on demand, "
        f"{_price_a100():.2f} per hour. Written by `make compile`."
    )
    plans = {title: search.plan(model, cluster, layout) for title, layout in layouts.items()}
    proposal = search.propose_plan(model, cluster, like)
    plans |= {"the planner's proposal, below": proposal}
    yield from _table(LAYOUT_COLUMNS, (_describe_layout(*row) for row in plans.items()))
    yield f"\nThe proposal is `{search.flags(proposal.layout)}`.\n"
    yield _paragraph(
        f"The config [{name}.yaml](../../pipelines/configs/{name}.yaml) has the layout **{CHOSEN[name]}**. The memory "
        "is that of Nightshift's trainer, tensor by tensor: states in float32, the loss in pieces."
    )
    yield _paragraph(
        "Bubble and communication are shares of the step; communication that computation hides is not counted, nor are "
        "the loading of data, evaluation, checkpoints and failures."
    ).rstrip()


def write_pages() -> dict[str, str]:
    """Return the pages by the names of their files."""
    texts = {"serving-70b": write_serving()} | {name: write_training(name) for name in TRAININGS}
    return {f"{name}.md": "\n".join(lines) + "\n" for name, lines in texts.items()}


def _explain_limit() -> str:
    demand = _demand(REQUEST, OBJECTIVE)
    alone = [operate(replica, REQUEST, 1) for machine in _machines() for replica in list_replicas(demand, machine)]
    fastest = min(alone, key=lambda point: point.token)
    whole = fastest.idle_first_token + fastest.token * (REQUEST.output - 1)
    return _paragraph(
        "A whole answer in 500 ms is out of reach: the fastest replica of all, with one request in flight, needs "
        f"{fastest.token * 1e3:.1f} ms per token and {whole:.1f} s for 256. What can be promised is the **first "
        "token**. It waits for the pass that runs and for prompts that came before, and is there when its own prompt "
        "has been read. From then on 50 ms per token, 20 tokens/s, is faster than people read."
    ).rstrip()


def _paragraph(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False, break_long_words=False) + "\n"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
    yield from (f"| {' | '.join(cells)} |" for cells in rows)


def _machines() -> list[Machine]:
    return [read_machines()[name] for name in MACHINES]


def _plan(request: RequestLength, objective: Objective) -> FleetSearch:
    return plan_fleets(_demand(request, objective), _machines())


def _demand(request: RequestLength, objective: Objective) -> Demand:
    return Demand(read_shape("llama3-70b"), request, RATE, objective)


def _dates(fleets: FleetSearch) -> str:
    return " and ".join(sorted({str(plan.machine.date) for plan in fleets.plans}))


def _describe_fleet(plan: FleetPlan) -> tuple[str, ...]:
    point = plan.point
    return (
        plan.replica.gpu.name,
        plan.market,
        f"{plan.machines} x {plan.machine.name}",
        f"{plan.replicas} of {plan.replica.tensor}, {plan.replica.precision}",
        f"{point.concurrency}",
        *(f"{seconds * 1e3:,.0f} ms" for seconds in (point.idle_first_token, point.first_token, point.first_token_p99)),
        f"{point.token * 1e3:,.1f} ms",
        f"{plan.tokens_per_gpu:,.0f}",
        f"{plan.usd_per_hour:,.0f}",
        f"{plan.usd_per_million:,.2f}",
    )


def _is_dearer(plan: FleetPlan, fleets: FleetSearch) -> bool:
    return plan.market == "on-demand" and plan is not fleets.cheapest[plan.machine.name, plan.market]


def _describe_dearer(plan: FleetPlan) -> str:
    replica = f"{plan.replica.tensor} x {plan.replica.gpu.name}, {plan.replica.precision}"
    return f"{replica}: {plan.machines} machines, {plan.usd_per_million:,.2f} USD per million tokens."


def _compare(title: str, cases: Iterable[tuple[str, RequestLength, float]]) -> Iterator[str]:
    """Yield a table of dollars per million output tokens: a row per case, a column per GPU."""
    yield from _table((title, *(machine.gpu for machine in _machines())), (_compare_gpus(*case) for case in cases))


def _compare_gpus(label: str, request: RequestLength, limit: float) -> tuple[str, ...]:
    fleets = _plan(request, Objective(limit, OBJECTIVE.token)).cheapest
    offers = [fleets.get((name, "on-demand")) for name in MACHINES]
    return label, *("-" if plan is None else f"{plan.usd_per_million:,.2f}" for plan in offers)


def _price_a100() -> float:
    """Return the US dollars per hour of one GPU."""
    machine = read_machines()["p4de.24xlarge"]
    return (machine.usd["on-demand"] or 0.0) / machine.gpus


def _describe_layout(title: str, plan: LayoutPlan) -> tuple[str, ...]:
    memory, timing = plan.memory, plan.timing
    sizes = [f"{size / GIB:.1f}" for size in (memory.total, memory.states, memory.activations)]
    if not plan.fits:
        has = plan.cluster.gpu.memory / GIB
        return f"{title}: rejected, a GPU has {has:.1f}", *sizes, *("-" for _ in LAYOUT_COLUMNS[4:])
    shares = (timing.bubble / timing.step, timing.communication / timing.step, plan.mfu)
    return (
        title,
        *sizes,
        f"{plan.layout.micro_batches(plan.cluster)}",
        f"{timing.step:.1f} s",
        *(format_value(share, "percent") for share in shares),
        f"{plan.throughput:,.0f}",
        f"{_price_a100() / (plan.throughput * 3600) * 1e9:,.0f}",
    )


if __name__ == "__main__":
    for name, text in write_pages().items():
        Path(sys.argv[1], name).write_text(text)
