"""The pages of example plans: layouts of a model side by side, and the planner's proposal.

`python -m nightshift_perf.planning.examples llama-10b` prints packages/perf/docs/plans/llama-10b.md.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from nightshift.runtime import strict_yaml
from nightshift_perf.hardware import gpu
from nightshift_perf.planning import search
from nightshift_perf.planning.layout import Checkpointing, Cluster, ParallelLayout
from nightshift_perf.planning.memory import GIB
from nightshift_perf.planning.models import preset
from nightshift_perf.planning.search import LayoutPlan

TABLE = Path(__file__).with_name("examples.yaml")
GPU = "a100-80gb"
GBIT = 50  # of a GPU to other nodes
USD = 3.43  # of a GPU, per hour
COLUMNS = (
    *("layout", "GiB per GPU", "states", "activations", "micro-batches", "step", "bubble", "communication", "MFU"),
    *("tokens/s per GPU", "USD per billion tokens"),
)


@dataclass(frozen=True)
class Example:
    """A model on a cluster, and its layouts.

    Attributes:
        name: the model's preset.
        nodes: how many.
        per_node: GPUs of a node.
        batch: samples of a step.
        chosen: name of the layout of the model's config.
        layouts: name -> fields of `ParallelLayout`.
    """

    name: str
    nodes: int
    per_node: int
    batch: int
    chosen: str
    layouts: Mapping[str, Mapping[str, Any]]

    @property
    def cluster(self) -> Cluster:
        """The GPUs."""
        return Cluster(gpu(GPU), self.nodes, self.per_node, GBIT / 8 * 1e9)

    def plan(self, name: str) -> LayoutPlan:
        """Return the plan of a layout."""
        fields = dict(self.layouts[name])
        checkpointing = Checkpointing(fields.pop("checkpointing", "none"))
        layout = ParallelLayout(self.batch, checkpointing=checkpointing, **fields)
        return search.plan(preset(self.name), self.cluster, layout)


def read_examples() -> dict[str, Example]:
    """Return the examples by the model's name."""
    table: dict[str, Any] = strict_yaml.load_document(TABLE.read_text())
    return {name: Example(name=name, **row) for name, row in table.items()}


def page(example: Example) -> Iterator[str]:
    """Yield the lines of an example's page."""
    model, config = preset(example.name), f"../../../llm/nightshift_llm/configs/{example.name}.yaml"
    proposal = search.propose_plan(model, example.cluster, ParallelLayout(example.batch))
    tokens = example.batch * model.tokens
    yield f"# Training {example.name}: {example.nodes} nodes of {example.per_node} A100 with 80 GB\n"
    yield from _wrap(
        f"An explanation for those who choose a layout: {model.parameters / 1e9:.1f} billion parameters, "
        f"{model.tokens:,} tokens per sequence, {tokens:,} tokens per step, BF16, {GBIT} Gbit/s between a GPU and "
        "other nodes. `make compile` writes it as `nightshift perf plan` computes it; [planning.md](../planning.md) "
        "says how, and how far to trust it. No GPU of ours has run it. Dollars are those of a GPU of `p4de.24xlarge` "
        f"on demand, {USD} per hour."
    )
    yield f"\n| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"
    yield from (_row(name, example.plan(name)) for name in example.layouts)
    yield _row("the planner's proposal, below", proposal)
    yield f"\nThe proposal is:\n\n    {search.flags(proposal.layout)}\n"
    yield from _wrap(
        f"The config [{example.name}.yaml]({config}) has the layout **{example.chosen}**. The memory is that of "
        "Nightshift's trainer, tensor by tensor: states in float32, the loss in pieces."
    )
    yield ""
    yield from _wrap(
        "Bubble and communication are shares of the step; communication that computation hides is not counted, nor are "
        "the loading of data, evaluation, checkpoints and failures."
    )


def _wrap(text: str) -> list[str]:
    return wrap(text, 120, break_long_words=False, break_on_hyphens=False)


def _row(name: str, plan: LayoutPlan) -> str:
    memory, time = plan.memory, plan.timing
    if not plan.fits:
        name += f": rejected, a GPU has {plan.cluster.gpu.memory / GIB:.1f}"
    cells = [name, *(f"{size / GIB:.1f}" for size in (memory.total, memory.states, memory.activations))]
    speeds = ["-"] * 7
    if plan.fits:
        shares = [
            f"{100 * share:.1f} %" for share in (time.bubble / time.step, time.communication / time.step, plan.mfu)
        ]
        usd = USD / 3600 / plan.throughput * 1e9
        count = plan.layout.micro_batches(plan.cluster)
        speeds = [str(count), f"{time.step:.1f} s", *shares, f"{plan.throughput:,.0f}", f"{usd:,.0f}"]
    return f"| {' | '.join(cells + speeds)} |"


if __name__ == "__main__":
    print("\n".join(page(read_examples()[sys.argv[1]])))  # noqa: T201 - the page
