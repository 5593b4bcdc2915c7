"""Llama models of `transformers`: trained from scratch, trained further, or adapted with LoRA.

Touvron et al., LLaMA, 2023. Rows are packed with documents, and a token attends only to its own document.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from pydantic import Field, ValidationInfo, field_validator, model_validator
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding

from nightshift.config.neural import LearningRate, PipelineSchedule, Trainer
from nightshift.config.section import BatchSize, Epochs, Layers, Threads, Width, check_parameters
from nightshift.models.neural import attention
from nightshift.models.neural.attention import AttentionMask
from nightshift.models.neural.blocks import ConditionedBlocks, RecomputingBlock
from nightshift.models.neural.data import ResidentDataset
from nightshift.models.neural.packing import TargetTokens
from nightshift.models.neural.quantized import QuantizedLinear
from nightshift.models.recipes import Group, decay_groups, pretrained
from nightshift.models.recipes.pretrained import Adapted
from nightshift.runtime.errors import UserError

if TYPE_CHECKING:
    from torch.distributed.tensor.parallel import ParallelStyle

HEAD = 64  # width of an attention head, and default width per layer, as in nanochat
SMALL_HEAD = 16  # the same in a stand-in for a large network
RATE = 0.003  # of Adam at a width of 4 heads
LOGITS = 1 << 27  # logits in memory at once while the loss is computed; each chunk reads the whole output layer
BETAS = (0.9, 0.95)  # Adam's betas; Brown et al., GPT-3, appendix B
ATTENTION = "documents"
TIED = ("embedding.tokens.weight", "prediction.output.weight")
COLUMNS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
SUMS = ("self_attn.o_proj", "mlp.down_proj")


class Context(NamedTuple):
    """The context that every block gets for this process's tokens.

    Attributes:
        rows: token ids, int32 (n, length + 1).
        positions: position of each token but the last in its document, int64 (n, length).
        visible: attention mask.
    """

    rows: Tensor
    positions: Tensor
    visible: AttentionMask


class LlamaParameters(Adapted):
    """The fields of `task.candidates.<name>.parameters` for the kind `llama`."""

    epochs: Epochs = 1
    batch_size: BatchSize = Field(16, description="rows of a step, over all processes; each has task.length tokens")
    threads: Threads = Field(2, description="on the CPU")
    depth: Layers = Field(4, description="layers, from scratch; what follows is derived from them where it is left out")
    width: Width = Field(4 * HEAD, description="numbers of a token; default: 64 times depth")
    heads: Layers = Field(4, description="of each layer; default: one for 64 of the width")
    kv_heads: Layers = Field(4, description="keys and values of each layer, which heads share; default: as many")
    learning_rate: LearningRate = Field(
        RATE,
        description="of Adam, at most; default: 0.003 at a width of 256, less by the square root of the width, and a "
        "tenth where all pretrained weights are trained",
    )

    lora_bits: Literal[4, 32] = Field(
        32, description="of each number of the pretrained matrices that adapters learn beside; 4: NF4, as in QLoRA"
    )

    @field_validator("lora_bits")
    @classmethod
    def _adapts_matrices(cls, value: int, info: ValidationInfo) -> int:
        if value == 4 and not info.data.get("lora_rank"):
            raise ValueError("no adapters learn beside the matrices; set lora_rank, or write 32")
        return value

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, values: Any) -> Any:
        """Derive missing sizes from the depth, of a network from scratch."""
        if values.get("pretrained"):
            return values
        depth = values.get("depth", 4)
        if not isinstance(depth, int):
            return values
        width = values.get("width", HEAD * depth)
        if not isinstance(width, int) or width < 1:
            return values
        heads = values.get("heads", max(1, width // HEAD))
        rate = scale_rate(RATE, width)
        return {"width": width, "heads": heads, "kv_heads": heads, "learning_rate": rate, **values}


def scale_rate(rate: float, width: int) -> float:
    """Return a learning rate that is right at a width of 4 heads for another width."""
    return round(rate * math.sqrt(4 * HEAD / width), 6)


class Embedding(nn.Module):
    """The token embedding: the first block."""

    def __init__(self, tokens: nn.Embedding) -> None:
        super().__init__()
        self.tokens = tokens

    def forward(self, _: Tensor, context: Context) -> Tensor:
        """Return the embeddings of all tokens but the last, (n, length, width)."""
        embedded: Tensor = self.tokens(context.rows[:, :-1])
        device = embedded.device.type
        return embedded.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else embedded


class Layer(nn.Module):
    """A decoder layer, attention and feed-forward: a middle block."""

    def __init__(self, layer: LlamaDecoderLayer, shape: LlamaConfig) -> None:
        super().__init__()
        self.layer, self.rotary = layer, LlamaRotaryEmbedding(shape)

    def forward(self, hidden: Tensor, context: Context) -> Tensor:
        """Return the layer's hidden states, (n, length, width)."""
        rotations = self.rotary(hidden, position_ids=context.positions)
        out: Tensor = self.layer(hidden, attention_mask=context.visible, position_embeddings=rotations)
        return out


class Prediction(RecomputingBlock):
    """The norm, the output layer and the cross-entropy: the last block."""

    def __init__(self, norm: LlamaRMSNorm, output: nn.Linear) -> None:
        super().__init__()
        self.norm, self.output, self.logits = norm, output, LOGITS

    def forward(self, hidden: Tensor, context: Context) -> Tensor:
        """Return the cross-entropy of each token after the first in nats, float32 (n, length), in chunks of logits."""
        targets = context.rows[:, 1:].long()
        size = max(1, self.logits // (self.output.out_features * len(targets)))
        pieces = zip(torch.split(hidden, size, 1), torch.split(targets, size, 1), strict=True)
        return torch.cat([checkpoint(self._nats, *piece, use_reentrant=False) for piece in pieces], 1)

    def compile(self, *options: Any, **named_options: Any) -> None:
        """Compile the computation of a chunk; as one graph, the logits of all chunks would be in memory at once."""
        self._nats = torch.compile(self._nats, *options, **named_options)  # type: ignore[method-assign]

    def _nats(self, hidden: Tensor, targets: Tensor) -> Tensor:
        logits = self.output(self.norm(hidden)).flatten(0, 1).float()
        return nn.functional.cross_entropy(logits, targets.flatten(), reduction="none").view_as(targets)


class Decoder(ConditionedBlocks):
    """Rows of tokens, int32 (n, length + 1) -> nats of each token after the first, float32 (n, length).

    Attributes:
        start: id of the token that begins a document.
    """

    start: int

    def condition(self, rows: Tensor) -> Context:
        """Return the context of the blocks."""
        tokens = rows[:, :-1]
        index = torch.arange(tokens.shape[1], device=rows.device)
        starts = torch.where(tokens == self.start, index, 0).cummax(1).values
        own = self.own_tokens(tokens.shape[1])
        visible = attention.within_documents(starts, own, self.sharing)
        return Context(rows[:, own.start : own.stop + 1], (index - starts)[:, own], visible)


@dataclass(frozen=True)
class Llama:
    """The recipe.

    Attributes:
        field: path of the parameters in the config, for messages.
        vocabulary: vocabulary size.
        start: id of the token that begins a document.
        length: sequence length in predicted tokens.
        fit: sizes and training parameters.
    """

    field: str
    vocabulary: int
    start: int
    length: int
    fit: LlamaParameters

    def model(self) -> Decoder:
        """Return a network with pretrained weights, if any, and random ones otherwise.

        Raises:
            UserError: when the pretrained weights cannot be had, or do not fit the tokenizer or the length.
        """
        if not self.fit.pretrained:
            return self._blocks(LlamaForCausalLM(self.shape))
        options = {"config": self.shape, "dtype": torch.float32}  # the file's 16 bits would lose small updates
        decoder = self._blocks(pretrained.network(LlamaForCausalLM, self._source, self.fit.pretrained, **options))
        return self._adapt(decoder) if self.fit.lora_rank else decoder

    def causal(self, model: nn.Sequential) -> LlamaForCausalLM:
        """Return a trained network as a `transformers` model on the CPU, with adapters merged."""
        merged = _merge(model) if self.fit.lora_rank else model
        weights = {_transformers_name(name): value.cpu() for name, value in merged.state_dict().items()}
        causal = LlamaForCausalLM(LlamaConfig.from_dict(self.shape.to_dict()))
        causal.load_state_dict(weights)
        causal.eval()  # type: ignore[no-untyped-call]
        return causal

    @property
    def targets(self) -> TargetTokens:
        """Which tokens it learns to predict."""
        return TargetTokens(self.start, self.vocabulary)

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean over rows of their weighted nats, (n, length) each; a weight of 0 masks a token."""
        return (outputs * labels).sum() / len(outputs)

    def optimizer_groups(self, trained: Mapping[str, Tensor]) -> list[Group]:
        """Return the trained parameters; with weight decay, vectors are a separate group."""
        settings = {"betas": BETAS, "lr": self.learning_rate}
        return [{**group, **settings} for group in decay_groups(self.fit, trained)]

    def tensor_plan(self, part: nn.Sequential, processes: int) -> "dict[str, ParallelStyle]":
        """Split heads, feed-forward units and the vocabulary, whose parts may differ by one token.

        Raises:
            UserError: when so many processes do not divide one of them.
        """
        from torch.distributed.tensor import Replicate
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

        from nightshift.models.neural.styles import Replicated

        self._check_shared(processes)
        styles: dict[str, Callable[[], ParallelStyle]] = {
            "tokens": lambda: RowwiseParallel(input_layouts=Replicate()),
            "output": lambda: ColwiseParallel(output_layouts=Replicate()),
            **dict.fromkeys(COLUMNS, ColwiseParallel),
            **dict.fromkeys(SUMS, RowwiseParallel),
        }
        for matrix in COLUMNS:  # an adapter's sums over its rank are whole; the matrix beside them is split as its base
            styles[f"{matrix}.base_layer"] = styles[f"{matrix}.lora_B.default"] = ColwiseParallel
        for matrix in SUMS:
            styles[f"{matrix}.base_layer"] = styles[f"{matrix}.lora_A.default"] = RowwiseParallel
        names = {name: name.split(".", 1)[1] for name, module in part.named_modules() if _has_own_weights(module)}
        return {name: styles.get(inner.removeprefix("layer."), Replicated)() for name, inner in names.items()}

    def flops(self) -> int:
        """Return the FLOPs of a row: 6 per matrix weight and token, 12 per pair of tokens and value of their width.

        As Chowdhery et al., PaLM, 2022, appendix B count them, and torchtitan does: pairs that attention leaves out are
        among them. With adapters a third is saved, since no gradient of the matrices themselves is computed.
        """
        shape = self.shape
        queries, shared = self._attention_width
        layer = shape.hidden_size * (2 * queries + 2 * shared)
        layer += 3 * shape.hidden_size * shape.intermediate_size
        token = 2 * (shape.num_hidden_layers * layer + shape.hidden_size * shape.vocab_size)
        token += 4 * shape.num_hidden_layers * queries * self.length
        return (2 if self.fit.lora_rank else 3) * self.length * token

    def random_rows(self, count: int, device: torch.device) -> ResidentDataset:
        """Return rows of random tokens, a document each."""
        rows = torch.randint(1, self.vocabulary, (count, self.length + 1), dtype=torch.int32, device=device)
        weights = torch.full((count, self.length), 1 / self.length, device=device)
        return ResidentDataset(rows, weights, self.fit.batch_size)

    @cached_property
    def shape(self) -> LlamaConfig:
        """The sizes of the network.

        Raises:
            UserError: when it is that of another network, or does not fit the tokenizer or the length.
        """
        AttentionInterface.register(ATTENTION, attention.attend)
        fit = self.fit
        if fit.pretrained:
            config: LlamaConfig = pretrained.read(
                LlamaConfig, self._source, fit.pretrained, attn_implementation=ATTENTION
            )
            self._check(config)
            config.bos_token_id, config.dtype = self.start, torch.float32
        else:
            self._check_widths()
            config = LlamaConfig(
                vocab_size=self.vocabulary,
                hidden_size=fit.width,
                intermediate_size=-(-8 * fit.width // (3 * HEAD)) * HEAD,
                num_hidden_layers=fit.depth,
                num_attention_heads=fit.heads,
                num_key_value_heads=fit.kv_heads,
                max_position_embeddings=self.length,
                bos_token_id=self.start,
                eos_token_id=self.start,
                attn_implementation=ATTENTION,  # type: ignore[call-arg]
            )
        return config

    @property
    def learning_rate(self) -> float:
        """Adam's at most: the config's, or by the width of the network, which of a pretrained one its folder says."""
        fit = self.fit
        if not fit.pretrained or "learning_rate" in fit.model_fields_set:
            return fit.learning_rate
        return scale_rate(RATE if fit.lora_rank else RATE / pretrained.FASTER, self.shape.hidden_size)

    @property
    def _attention_width(self) -> tuple[int, int]:
        """Widths of a token's queries, and of its keys or values."""
        size, shared = self.shape.head_dim, self.shape.num_key_value_heads
        assert size
        assert shared
        return size * self.shape.num_attention_heads, size * shared

    @property
    def _source(self) -> str:
        return f"{self.field}.pretrained"

    def _blocks(self, causal: LlamaForCausalLM) -> Decoder:
        inner, shape = causal.model, self.shape
        layers = {f"layer{number}": Layer(layer, shape) for number, layer in enumerate(inner.layers)}
        if shape.tie_word_embeddings:
            causal.lm_head.weight = nn.Parameter(causal.lm_head.weight.detach().clone())
        last = Prediction(inner.norm, causal.lm_head)
        blocks = Decoder(OrderedDict(embedding=Embedding(inner.embed_tokens), **layers, prediction=last))
        blocks.start = self.start
        blocks.tied = [TIED] if shape.tie_word_embeddings else []
        return blocks

    def _adapt(self, decoder: Decoder) -> Decoder:
        """Return a frozen network with trainable low-rank adapters (Hu et al., LoRA, 2021)."""
        from peft import LoraConfig, LoraModel

        names = [name.rsplit(".", 1)[1] for name in (*COLUMNS, *SUMS)]
        if self.fit.lora_bits == 4:
            for name, module in [*decoder.named_modules()]:
                if isinstance(module, nn.Linear) and name.rsplit(".", 1)[1] in names:
                    decoder.set_submodule(name, QuantizedLinear(module))
        adapters = LoraConfig(r=self.fit.lora_rank, lora_alpha=self.fit.lora_alpha, target_modules=names)
        LoraModel(decoder, {"default": adapters}, "default")  # it changes the decoder in place
        return decoder

    def _check_widths(self) -> None:
        fit = self.fit
        if fit.width % (2 * fit.heads):
            raise UserError(
                f"{self.field}.heads: is {fit.heads}; a width of {fit.width} is no even number for each of them"
            )
        if fit.heads % fit.kv_heads:
            raise UserError(f"{self.field}.kv_heads: is {fit.kv_heads}, which does not divide {fit.heads} heads")

    def _check_shared(self, processes: int) -> None:
        shape = self.shape
        if self.fit.lora_bits == 4 and processes > 1:
            raise UserError(
                f"task.trainer.tensor: is {processes}, and matrices in 4 bits are not split; write 1, or set"
                f" {self.field}.lora_bits to 32"
            )
        counts = {
            "heads": shape.num_attention_heads,
            "kv_heads": shape.num_key_value_heads or shape.num_attention_heads,
            "units between two linear layers": shape.intermediate_size,
        }
        for name, count in counts.items():
            if count % processes:
                common = math.gcd(*counts.values())
                allowed = ", ".join(str(number) for number in range(1, common + 1) if common % number == 0)
                raise UserError(
                    f"task.trainer.tensor: is {processes}, which does not divide the {count} {name} of {self.field}; "
                    f"write one of {allowed}, or change them"
                )

    def _check(self, shape: LlamaConfig) -> None:
        field = self._source
        if shape.model_type != "llama":
            raise UserError(f"{field}: is a network of type {shape.model_type!r}; choose one of type 'llama'")
        for name, allowed in (("hidden_act", "silu"), ("attention_bias", False), ("mlp_bias", False)):
            if (value := getattr(shape, name)) != allowed:
                raise UserError(f"{field}: its {name} is {value!r}; choose a network with {allowed!r}")
        pretrained.check_shape(field, shape, self.vocabulary, self.length)


def build(field: str, shape: Mapping[str, int], values: Mapping[str, Any]) -> Llama:
    """Return a recipe; see `nightshift.models.recipes.build`."""
    return Llama(field, **shape, fit=check_parameters(LlamaParameters, field, values))


def scale_down(parameters: Mapping[str, Any], trainer: Trainer) -> dict[str, Any]:
    """Return parameters of a network as small as the layout allows: two blocks a stage, as many queries for each key.

    Raises:
        UserError: for a pretrained network, whose sizes are those of its weights.
    """
    fit = LlamaParameters.parse_value(dict(parameters))
    if fit.pretrained:
        raise UserError(f"--scale-down: a stand-in has random weights, not those of {fit.pretrained}; leave it out")
    stages = trainer.pipeline * (1 if trainer.schedule is PipelineSchedule.ONE_F_ONE_B else 2)
    heads = trainer.tensor * (fit.heads // fit.kv_heads)
    sizes = {"depth": max(2, 2 * stages - 2), "width": SMALL_HEAD * heads, "heads": heads, "kv_heads": trainer.tensor}
    return {name: value for name, value in parameters.items() if name != "learning_rate"} | sizes


def _merge(model: nn.Sequential) -> nn.Sequential:
    """Return a copy of an adapted network with the adapters merged into its weights."""
    from peft.tuners.lora import LoraLayer

    merged = deepcopy(model)
    for name, module in [*merged.named_modules()]:
        if isinstance(module, LoraLayer):
            if isinstance(base := module.get_base_layer(), QuantizedLinear):
                module.base_layer = base.dequantize()
            module.merge()
            merged.set_submodule(name, module.get_base_layer())
    return merged


def _transformers_name(name: str) -> str:
    """Return the name in `transformers` of a weight of ours."""
    block, inner = name.split(".", 1)
    if block.startswith("layer"):
        return f"model.layers.{block.removeprefix('layer')}.{inner.removeprefix('layer.')}"
    return {"tokens.weight": "model.embed_tokens.weight", "norm.weight": "model.norm.weight"}.get(
        inner, "lm_head.weight"
    )


def _has_own_weights(module: nn.Module) -> bool:
    return next(module.parameters(recurse=False), None) is not None
