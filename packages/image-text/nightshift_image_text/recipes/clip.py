"""Networks that bring images and their reports together: CLIP and SigLIP, as `transformers` has them.

Radford et al., CLIP, 2021; Zhai, Mustafa, Kolesnikov & Beyer, SigLIP, 2023. An image's findings are told from it alone.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

import annotated_types
import torch
from pydantic import Field, ValidationInfo, field_validator
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    AutoConfig,
    BertConfig,
    BertModel,
    CLIPConfig,
    CLIPModel,
    PreTrainedConfig,
    SiglipConfig,
    SiglipModel,
)
from transformers.utils.constants import IMAGENET_STANDARD_MEAN, OPENAI_CLIP_MEAN, OPENAI_CLIP_STD

from nightshift.config.neural import LearningRate
from nightshift.config.section import BatchSize, Epochs, Layers, Share, Threads, Width, check_parameters
from nightshift.models import weights
from nightshift.models.neural.data import Gather, Samples, Transform, gather_resident, gather_together
from nightshift.models.neural.images import Augmentation, augment
from nightshift.models.recipes import Group, decay_groups, pretrained
from nightshift.models.recipes.bert import WIDER, WITHOUT_DROPOUT, plan_shape
from nightshift.models.recipes.pretrained import Continued
from nightshift.runtime.errors import UserError
from nightshift_image_text.recipes import contrastive, towers
from nightshift_image_text.recipes.pairs import PairDataset
from nightshift_image_text.recipes.towers import (
    IMAGE,
    LOGITS,
    PIXELS,
    TEXT,
    TOKENS,
    Heads,
    Tower,
    TowerEmbedding,
    TowerLayer,
)

if TYPE_CHECKING:
    from torch.distributed.tensor.parallel import ParallelStyle

NUMBERS = 2  # before the findings, in a row's labels: of the study and of the group
ACTIVATIONS = ("gelu", "gelu_pytorch_tanh", "quick_gelu")
KINDS: dict[str, Any] = {"clip": CLIPModel, "siglip": SiglipModel}
NORMALIZATIONS = {
    "clip": (OPENAI_CLIP_MEAN, OPENAI_CLIP_STD),
    "siglip": (IMAGENET_STANDARD_MEAN, IMAGENET_STANDARD_MEAN),
}
GRAY = (0.5,)  # mean and deviation from scratch
SCALE, BIAS = 2.3026, -10.0  # logarithm of 10; Zhai et al., SigLIP, 2023, section 3.2
ADAPTED = "(q_proj|v_proj|query|value)"  # the matrices beside which adapters learn (Hu et al., LoRA, 2021)

Weight = Annotated[float, annotated_types.Interval(ge=0, le=1000)]


class ClipParameters(Continued):
    """The fields of `task.candidates.<name>.parameters` for the kind `clip`; see the package's docs/training.md."""

    compares_rows = True

    epochs: Epochs = 10
    batch_size: BatchSize = Field(
        128, description="pairs of a step, over all processes: each is told from all others of them"
    )
    learning_rate: LearningRate = Field(
        0.001, description="of Adam, at most, for all that is not pretrained, and for projections; falls to 0"
    )
    pretrained_learning_rate: LearningRate = Field(0.00002, description="the same, for weights of pretrained towers")
    threads: Threads = Field(2, description="on the CPU")
    width: Width = Field(128, description="numbers of a patch or token, and of an embedding, from scratch")
    layers: Layers = Field(2, description="of each tower, from scratch")
    heads: Layers = Field(4, description="of each layer, from scratch; they divide the width")
    patch: Annotated[int, annotated_types.Interval(ge=1, le=1024)] = Field(
        8, description="pixels of a patch's side, from scratch; they divide task.side"
    )
    pretrained_text: str = Field(
        "", description="the same, of a BERT, which becomes the text tower; with the tokenizer.json beside it"
    )
    frozen_text: bool = Field(False, description="true: the pretrained text tower stays, but for its projection")
    train: Literal["all", "lora", "heads"] = Field(
        "all",
        description="of pretrained towers: all weights, low-rank adapters beside them (lora), or only the projections "
        "and the layer of findings behind them (heads); towers from scratch are trained whole",
    )
    lora_rank: Width = Field(8, description="of adapters")
    lora_alpha: Width = Field(16, description="their products are scaled by it over their rank")
    loss: Literal["softmax", "sigmoid"] = Field(
        "softmax", description="of pairs: CLIP's, over all pairs of a batch, or SigLIP's, of each pair by itself"
    )
    design: Literal["clip", "compact"] = Field(
        "clip",
        description="of towers from scratch: CLIP's or SigLIP's; or compact, which learns from a few thousand pairs: "
        "convolutions before CLIP's image layers, the mean and maximum of all patches, and a BERT, the mean of whose "
        "tokens is a text",
    )
    pairs_weight: Weight = Field(1, description="of the loss of pairs; 0: findings are learned from images alone")
    findings_weight: Weight = Field(1, description="of the loss of findings; 0: they are not learned")
    group_negatives: Weight = Field(
        1,
        description="what pairs of the same group and another study count as negatives: above 1, they are the hard "
        "ones, and reports of one patient are told apart; 0: they are left out, since they often say the same",
    )
    small_side: Annotated[int, annotated_types.Interval(ge=1, le=1024)] = Field(
        32, description="side of the images of some batches, see small_share; patches divide it"
    )
    small_share: Share = Field(
        0, description="share of batches whose images are shrunk to small_side; faster by as much"
    )
    shift: Annotated[float, annotated_types.Interval(ge=0, lt=0.5)] = Field(
        0.05, description="of the side, by how much a training image is moved at most"
    )

    @field_validator("frozen_text", "train")
    @classmethod
    def _keeps_something(cls, value: Any, info: ValidationInfo) -> Any:
        if value not in (False, "all") and not (info.data.get("pretrained") or info.data.get("pretrained_text")):
            raise ValueError("there is nothing pretrained to keep; name it as `pretrained`, or leave this out")
        return value

    @field_validator("design")
    @classmethod
    def _fits_compact_towers(cls, design: str, info: ValidationInfo) -> str:
        data = info.data
        if design == "clip":
            return design
        if data.get("pretrained") or data.get("loss") != "softmax":
            raise ValueError("compact towers are CLIP's, from scratch; leave out pretrained, and write loss: softmax")
        if data.get("microbatches", 1) > 1:
            raise ValueError("compact towers normalize over a batch, whose pieces differ; write microbatches: 1")
        if (patch := data.get("patch", 1)) & (patch - 1):
            raise ValueError(f"compact towers halve images, and patch is {patch}; write a power of 2")
        return design

    @field_validator("findings_weight")
    @classmethod
    def _learns_something(cls, value: float, info: ValidationInfo) -> float:
        if not value and not info.data.get("pairs_weight"):
            raise ValueError("nothing would be learned; set pairs_weight or findings_weight above 0")
        return value


@dataclass(frozen=True)
class Clip:
    """The recipe.

    A row's labels are the number of its study and of its group, and its findings: 0, 1, or NaN where nobody knows;
    float32 (n, 2 + findings), which holds numbers up to 2 ** 24. Pairs of one study belong together.

    Attributes:
        field: path of the parameters in the config, for messages.
        side: pixels of an image's side.
        channels: of an image.
        length: tokens of a text.
        vocabulary: numbers that tokens have.
        pad: the number that fills texts up.
        findings: how many there are.
        fit: towers and how they are fitted.
    """

    field: str
    side: int
    channels: int
    length: int
    vocabulary: int
    pad: int
    findings: int
    fit: ClipParameters

    def model(self) -> nn.Sequential:
        """Return a network with pretrained weights, if any, and random ones otherwise.

        Inputs `pixels` uint8 (n, side, side, channels) and `tokens` int32 (n, length) -> what the loss takes: `image`
        and `text` (n, width), and `logits` (n, findings).

        Raises:
            UserError: when pretrained weights cannot be had, or do not fit the tokenizer, the length or the images.
        """
        return self._build(is_loaded=True)

    def merge(self, model: nn.Sequential) -> nn.Sequential:
        """Have a trained network, with its adapters merged, give what is served.

        Its outputs, float32: `score` (n, findings), probabilities from the image alone; `image_embedding` and
        `text_embedding` (n, width), of unit length; `embedding` (n, 2 width), both side by side.
        """
        from peft.tuners.lora import LoraLayer

        for name, module in [*model.named_modules()]:
            if isinstance(module, LoraLayer):
                module.merge()
                model.set_submodule(name, module.get_base_layer())
        embedding, heads = model.get_submodule("embedding"), model.get_submodule("heads")
        assert isinstance(embedding, TowerEmbedding)
        assert isinstance(heads, Heads)
        embedding.has_texts = heads.is_serving = True
        return model

    def loss(self, outputs: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Return the weighted sum of the loss of pairs, over a whole batch, and of that of findings."""
        fit, losses = self.fit, []
        with torch.autocast(labels.device.type, enabled=False):  # a cosine times 100 needs more than 8 bits
            if fit.pairs_weight:
                losses.append(fit.pairs_weight * self._measure_pairs(outputs[IMAGE] @ outputs[TEXT].T, labels))
            if fit.findings_weight:
                findings = contrastive.measure_findings(outputs[LOGITS], labels[:, NUMBERS:])
                losses.append(fit.findings_weight * findings)
        return torch.stack(losses).sum()

    def _measure_pairs(self, similar: Tensor, labels: Tensor) -> Tensor:
        is_positive, is_group = (contrastive.compare_numbers(numbers) for numbers in labels[:, :NUMBERS].T)
        weights = contrastive.weigh_pairs(is_positive, is_group, self.fit.group_negatives)
        measure = contrastive.measure_softmax if self.fit.loss == "softmax" else contrastive.measure_sigmoid
        return measure(similar, is_positive, weights)

    def rows(self, gather: Gather, labels: Tensor) -> PairDataset:
        """Return pairs of a training: moved, and at the smaller side where the fit says so.

        Args:
            gather: gives `pixels` and `tokens` on the device; see `nightshift.models.neural.data.gather_together`.
            labels: on the device, see the class.
        """
        fit = self.fit
        return PairDataset(gather, labels, fit.batch_size, Transform(self._move), (fit.small_side, fit.small_share))

    def _move(self, samples: Samples, noise: Tensor) -> Samples:
        inputs, labels = samples
        moved = augment(Augmentation(round(self.fit.shift * self.side)), inputs[PIXELS], noise)
        return inputs | {PIXELS: moved}, labels

    def optimizer_groups(self, trained: Mapping[str, Tensor]) -> list[Group]:
        """Return the trained parameters; weights of pretrained towers have a learning rate of their own."""
        old = {name: value for name, value in trained.items() if self._is_old(name)}
        new = {name: value for name, value in trained.items() if name not in old}
        groups = decay_groups(self.fit, new)
        return groups + [{**group, "lr": self.fit.pretrained_learning_rate} for group in decay_groups(self.fit, old)]

    def tensor_plan(self, part: nn.Sequential, processes: int) -> "dict[str, ParallelStyle]":  # noqa: ARG002
        """Refuse: its layers are not shared.

        Raises:
            UserError: always.
        """
        raise UserError("task.trainer.tensor: a clip's layers are not shared; write tensor: 1")

    def flops(self) -> int:
        """Return what PyTorch counts for one pair, forward and backward; a mean where some batches are smaller."""
        small = self.fit.small_share
        sides = ((self.side, 1 - small), (self.fit.small_side, small))
        return round(sum(share * self._count_flops(side) for side, share in sides if share))

    def _count_flops(self, side: int) -> int:
        with torch.device("meta"), FlopCounterMode(display=False) as counter:
            pixels = torch.zeros((1, side, side, self.channels), dtype=torch.uint8)
            tokens = torch.zeros((1, self.length), dtype=torch.int32)
            outputs = self._build(is_loaded=False)({PIXELS: pixels, TOKENS: tokens})
            torch.autograd.backward([values.sum() for values in outputs.values()])
        return int(counter.get_total_flops())

    def random_rows(self, count: int, device: torch.device) -> PairDataset:
        """Return random pixels, tokens and findings, each pair of its own study."""
        size = (count, self.side, self.side, self.channels)
        pixels = torch.randint(256, size, dtype=torch.uint8, device=device)
        tokens = torch.randint(self.vocabulary, (count, self.length), dtype=torch.int32, device=device)
        numbers = torch.arange(count, device=device)[:, None].expand(count, NUMBERS)
        labels = torch.cat([numbers, torch.randint(2, (count, self.findings), device=device)], 1).float()
        return self.rows(gather_together({PIXELS: gather_resident(pixels), TOKENS: gather_resident(tokens)}), labels)

    @cached_property
    def shape(self) -> Any:
        """The sizes of both towers, a `CLIPConfig` or a `SiglipConfig`.

        Raises:
            UserError: when they are those of another network, or do not fit the tokenizer, the length or the images.
        """
        shape = self._read_shape() if self.fit.pretrained else self._plan_shape()
        for tower in (shape.vision_config, shape.text_config):
            tower.attention_dropout = 0.0  # a resumed training takes the same steps
        self._check_sides(shape.vision_config.patch_size)
        return shape

    def _plan_shape(self) -> Any:
        fit = self.fit
        if fit.width % fit.heads:
            raise UserError(f"{self.field}.heads: is {fit.heads}, which does not divide the width of {fit.width}")
        common: dict[str, Any] = {
            "hidden_size": fit.width,
            "intermediate_size": WIDER * fit.width,
            "num_hidden_layers": fit.layers,
            "num_attention_heads": fit.heads,
            "hidden_act": "gelu",
        }
        image = {"image_size": self.side, "patch_size": fit.patch, "num_channels": self.channels}
        text = {"vocab_size": self.vocabulary, "max_position_embeddings": self.length, "pad_token_id": self.pad}
        text_ends = {"bos_token_id": None, "eos_token_id": None}
        sizes: dict[str, Any] = {"vision_config": common | image, "text_config": common | text | text_ends}
        return CLIPConfig(**sizes, projection_dim=fit.width) if fit.loss == "softmax" else SiglipConfig(**sizes)

    def _read_shape(self) -> Any:
        field = f"{self.field}.pretrained"
        shape = pretrained.read(AutoConfig, field, self.fit.pretrained)
        if shape.model_type not in KINDS:
            raise UserError(
                f"{field}: is a network of type {shape.model_type!r}; choose one of type 'clip' or 'siglip'"
            )
        if self.channels not in (1, shape.vision_config.num_channels):
            raise UserError(
                f"task.channels: is {self.channels}; {field} takes {shape.vision_config.num_channels}, or 1, which is "
                "repeated"
            )
        if not getattr(shape.vision_config, "vision_use_head", True):
            raise UserError(f"{field}: has no pooling of patches; choose a network with vision_use_head: true")
        self._check_activation(field, shape.vision_config)
        if not self.fit.pretrained_text:
            self._check_activation(field, shape.text_config)
            pretrained.check_shape(field, shape.text_config, self.vocabulary, self.length)
        return shape

    @property
    def has_bert(self) -> bool:
        """Whether a BERT is the text tower."""
        return bool(self.fit.pretrained_text) or self.fit.design == "compact"

    @cached_property
    def text_shape(self) -> BertConfig:
        """The sizes of the BERT that is the text tower.

        Raises:
            UserError: when they are those of another network, or do not fit the tokenizer or the length.
        """
        fit, field = self.fit, f"{self.field}.pretrained_text"
        if not fit.pretrained_text:
            return plan_shape(fit, self.vocabulary, self.length, self.pad)
        shape: BertConfig = pretrained.read(BertConfig, field, self.fit.pretrained_text, **WITHOUT_DROPOUT)
        if shape.model_type != "bert":
            raise UserError(f"{field}: is a network of type {shape.model_type!r}; choose one of type 'bert'")
        self._check_activation(field, shape)
        pretrained.check_shape(field, shape, self.vocabulary, self.length)
        return shape

    def _check_activation(self, field: str, shape: Any) -> None:
        if shape.hidden_act not in ACTIVATIONS:
            raise UserError(
                f"{field}: its activation is {shape.hidden_act!r}; choose a network with {', '.join(ACTIVATIONS)}"
            )

    def _check_sides(self, patch: int) -> None:
        fit = self.fit
        if self.side % patch:
            raise UserError(f"task.side: is {self.side}, which patches of {patch} pixels do not divide evenly")
        if fit.small_share and (fit.small_side % patch or fit.small_side >= self.side):
            raise UserError(
                f"{self.field}.small_side: is {fit.small_side}; write a multiple of {patch}, the pixels of a patch, "
                f"below {self.side}, which is task.side"
            )

    def _build(self, is_loaded: bool) -> nn.Sequential:
        """Return the network; not loaded, it has random weights where it would have pretrained ones."""
        both = self._load("pretrained", KINDS[self.shape.model_type], self.shape, is_loaded)
        mean, deviation = self._normalization
        image = towers.image_tower(both, self.side, mean, deviation)
        if self.fit.design == "compact":
            image = towers.make_compact(image, self.channels, self.fit.patch)
        text = self._text_tower(both, is_loaded)
        scale, bias = self._temperature(both)
        findings = nn.Linear(image.width, self.findings)
        heads = Heads(image.projection, text.projection, findings, scale, bias)
        heads.tells_findings = self.fit.findings_weight > 0
        embedding = TowerEmbedding(image.embedding, text.embedding)
        embedding.has_texts = self.fit.pairs_weight > 0
        model = nn.Sequential(OrderedDict([("embedding", embedding), *_name_layers(image, text), ("heads", heads)]))
        if self.fit.train == "lora":
            self._adapt(model)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(self._is_trained(name))
        return model

    def _load(self, parameter: str, kind: Any, shape: PreTrainedConfig, is_loaded: bool, **options: Any) -> Any:
        name = getattr(self.fit, parameter)
        if not name or not is_loaded:
            return kind(shape, **options)
        # the file's 16 bits would lose small updates
        return pretrained.network(kind, f"{self.field}.{parameter}", name, config=shape, dtype=torch.float32, **options)

    def _text_tower(self, both: Any, is_loaded: bool) -> Tower:
        if self.has_bert:
            bert = self._load("pretrained_text", BertModel, self.text_shape, is_loaded, add_pooling_layer=False)
            return towers.bert_tower(bert, self.pad, self.embedding_width)
        return towers.text_tower(both, self.pad, self._end if self.fit.pretrained else -1)

    @property
    def embedding_width(self) -> int:
        """Numbers of the embedding of an image, or of a text."""
        shape = self.shape
        width: int = shape.projection_dim if shape.model_type == "clip" else shape.vision_config.hidden_size
        return width

    @property
    def _end(self) -> int:
        """The token that CLIP pools; published networks say 2, and mean their last one (see `CLIPTextModel`)."""
        text = self.shape.text_config
        if text.eos_token_id == 2:
            return int(text.vocab_size - 1)
        return text.eos_token_id if isinstance(text.eos_token_id, int) else -1

    def _temperature(self, both: Any) -> tuple[Tensor, Tensor | None]:
        """Return the logarithm of what similarities are multiplied by, and what is added, before the first step."""
        if self.fit.loss == "softmax":
            return both.logit_scale, None
        if not self.fit.pretrained:
            return torch.tensor(SCALE), torch.tensor(BIAS)
        return both.logit_scale, getattr(both, "logit_bias", torch.tensor(BIAS))

    @cached_property
    def _normalization(self) -> tuple[Any, Any]:
        if not self.fit.pretrained:
            return GRAY * self.channels, GRAY * self.channels
        shape = self.shape
        return pretrained.read_normalization(
            f"{self.field}.pretrained",
            self.fit.pretrained,
            shape.vision_config.num_channels,
            NORMALIZATIONS[shape.model_type],
        )

    def _adapt(self, model: nn.Sequential) -> None:
        """Add adapters beside matrices of attention of pretrained towers, in place."""
        from peft import LoraConfig, LoraModel

        if names := "|".join(tower for tower in (IMAGE, TEXT) if self._is_changed(tower)):
            targets = rf"({names})\d+\..*\.{ADAPTED}"
            adapters = LoraConfig(r=self.fit.lora_rank, lora_alpha=self.fit.lora_alpha, target_modules=targets)
            LoraModel(model, {"default": adapters}, "default")

    def _is_pretrained(self, tower: str) -> bool:
        return bool(self.fit.pretrained or (tower == TEXT and self.fit.pretrained_text))

    def _is_changed(self, tower: str) -> bool:
        """Return whether anything of a pretrained tower may change."""
        is_needed = tower == IMAGE or (self.fit.pairs_weight > 0 and not self.fit.frozen_text)
        return self._is_pretrained(tower) and is_needed and self.fit.train != "heads"

    def _is_old(self, name: str) -> bool:
        """Return whether a parameter is a pretrained tower's own."""
        return self._is_pretrained(_find_tower(name)) and "lora_" not in name and not name.startswith("heads.")

    def _is_trained(self, name: str) -> bool:
        tower, fit = _find_tower(name), self.fit
        if name.startswith("heads."):
            return fit.findings_weight > 0 if name.startswith("heads.findings.") else fit.pairs_weight > 0
        if tower == TEXT and not fit.pairs_weight:
            return False
        if not self._is_pretrained(tower):
            return True
        return self._is_changed(tower) and (fit.train == "all" or "lora_" in name)


def _name_layers(image: Tower, text: Tower) -> Iterator[tuple[str, nn.Module]]:
    for name, tower in ((IMAGE, image), (TEXT, text)):
        for number, layer in enumerate(tower.layers):
            yield f"{name}{number}", TowerLayer(name, layer, tower.mask)
    yield "pooling", towers.TowerPooling(image.pooling, text.pooling)


def _find_tower(name: str) -> str:
    """Return the tower of a parameter, by its name in the network; empty: of neither."""
    match = re.match(rf"(?:embedding\.|pooling\.|)({IMAGE}|{TEXT})[.\d]", name)
    return match[1] if match else ""


def build(field: str, shape: Mapping[str, int], values: Mapping[str, Any]) -> Clip:
    """Return a recipe; see `nightshift.models.recipes.build`."""
    return Clip(field, **shape, fit=check_parameters(ClipParameters, field, values))


def export(model: nn.Sequential, recipe: Clip, in_graph: int = weights.IN_GRAPH) -> bytes:
    """Return the graph of a merged network; see `nightshift_image_text.recipes.onnx_export`.

    Args:
        model: see `Clip.merge`.
        recipe: of the network; files of weights are named after its candidate.
        in_graph: bytes of weights that the graph can hold; more lie in files, a `LargeGraph`'s.
    """
    from nightshift_image_text.recipes import onnx_export

    name = recipe.field.removeprefix("task.candidates.").removesuffix(".parameters")
    return onnx_export.export_towers(model, recipe, weights.divide(name, onnx_export.read_weights(model), in_graph))
