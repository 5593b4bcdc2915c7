"""The planner's figures for a Llama and a layout as the trainer has them."""

from dataclasses import replace

from nightshift.config.neural import Compile, Keep, PipelineSchedule, Trainer
from nightshift_llm.recipes.llama import Llama
from nightshift_perf.planning import search
from nightshift_perf.planning.layout import Checkpointing, Cluster, ParallelLayout
from nightshift_perf.planning.models import Transformer
from nightshift_perf.planning.search import LayoutPlan


def plan_training(recipe: Llama, trainer: Trainer, cluster: Cluster) -> LayoutPlan:
    """Plan a training that bf16 products compute."""
    return search.plan(describe_model(recipe), cluster, describe_layout(recipe, trainer, cluster))


def describe_model(recipe: Llama) -> Transformer:
    """Return the planner's description of a network."""
    shape = recipe.shape
    assert shape.num_key_value_heads
    return Transformer(
        layers=shape.num_hidden_layers,
        hidden=shape.hidden_size,
        heads=shape.num_attention_heads,
        groups=shape.num_key_value_heads,
        feed_forward=shape.intermediate_size,
        vocabulary=shape.vocab_size,
        sequence=recipe.length,
        gated=True,
        tied=shape.tie_word_embeddings,
    )


def describe_layout(recipe: Llama, trainer: Trainer, cluster: Cluster) -> ParallelLayout:
    """Return the planner's description of how processes share a training."""
    fit = recipe.fit
    is_sharded = trainer.shard > 1 or trainer.zero
    layout = ParallelLayout(
        batch=fit.batch_size,
        tensor=trainer.tensor,
        pipeline=trainer.pipeline,
        interleave=1 if trainer.schedule is PipelineSchedule.ONE_F_ONE_B else 2,
        context=trainer.context,
        zero=trainer.zero or (3 if is_sharded else 0),
        shard=trainer.shard if trainer.shard > 1 else 0,
        checkpointing=Checkpointing(fit.recompute.value),
        fused=fit.compile is not Compile.NONE,
        copies=(fit.keep is Keep.BEST) + (fit.ema_decay > 0),
    )
    return replace(layout, micro_batch=fit.batch_size // layout.data(cluster) // fit.microbatches)
