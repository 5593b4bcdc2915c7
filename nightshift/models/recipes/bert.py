"""Transformer encoders over tokens, as `transformers` has them: from scratch, or from pretrained weights.

Devlin et al., BERT, 2019. A text's embedding is the mean over its tokens (Reimers & Gurevych, Sentence-BERT, 2019), and
a linear layer tells classes apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from nightshift.config.neural import LearningRate
from nightshift.config.section import BatchSize, Epochs, Layers, Threads, Width, check_parameters
from nightshift.models.neural.data import KEEP, AugmentedDataset, gather_resident
from nightshift.models.recipes import Group, classes, decay_groups, pretrained
from nightshift.models.recipes.classes import Classifying
from nightshift.models.recipes.pretrained import Adapted, Pretrained
from nightshift.runtime.errors import UserError

if TYPE_CHECKING:
    from peft import LoraModel
    from torch.distributed.tensor.parallel import ParallelStyle
    from transformers import BertConfig, BertModel

WITHOUT_DROPOUT: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
WIDER = 4  # the layer between, over what is between the layers


class BertParameters(Adapted, Pretrained, Classifying):
    """What `task.candidates.<name>.parameters` may hold for the kind `bert`; BERT-base is in the docs."""

    pretrained_rate = 5e-5

    epochs: Epochs = 4
    batch_size: BatchSize = Field(32, description="texts of a step, over all processes")
    learning_rate: LearningRate = Field(0.0005, description="of Adam, at most; falls to 0 after the last step")
    threads: Threads = Field(2, description="on the CPU")
    width: Width = Field(128, description="numbers of a token, from scratch")
    layers: Layers = Field(2, description="from scratch")
    heads: Layers = Field(4, description="of each layer, from scratch; they divide the width")


class Encoder(nn.Module):
    """Tokens to embeddings: (n, tokens) -> (n, width)."""

    def __init__(self, bert: "BertModel | LoraModel", pad: int) -> None:
        super().__init__()
        self.bert, self.pad = bert, pad

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the mean over a text's tokens of what the last layer makes of them; 0 of a text without any."""
        is_token = tokens != self.pad
        attended = is_token.long()
        attended[:, 0] = 1  # a text without tokens attends to its start, else its score is NaN
        states = self.bert(input_ids=tokens.long(), attention_mask=attended).last_hidden_state
        weights = is_token.unsqueeze(2).to(states.dtype)
        mean: Tensor = (states * weights).sum(1) / weights.sum(1).clamp(min=1)
        return mean


class TowerSizes(Protocol):
    """Width, layers and heads of a network from scratch."""

    @property
    def width(self) -> int:
        """Numbers of a token."""

    @property
    def layers(self) -> int:
        """How many there are."""

    @property
    def heads(self) -> int:
        """Of each layer."""


def plan_shape(sizes: TowerSizes, vocabulary: int, length: int, pad: int) -> "BertConfig":
    """Return the shape of a network from scratch, for so many token numbers, tokens of a text, and a padding."""
    from transformers import BertConfig

    return BertConfig(
        hidden_size=sizes.width,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=WIDER * sizes.width,
        vocab_size=vocabulary,
        max_position_embeddings=length,
        pad_token_id=pad,
        **WITHOUT_DROPOUT,
    )


@dataclass(frozen=True)
class Bert:
    """The recipe.

    Attributes:
        field: where the parameters stand in the config, for messages.
        vocabulary: numbers that tokens have.
        pad: the number that fills texts up.
        length: tokens of a text at most.
        classes: how many there are.
        fit: depth, width and how it is fitted.
        counts: training rows of each class, where they are balanced.
        is_multilabel: whether a row has any number of classes.
    """

    field: str
    vocabulary: int
    pad: int
    length: int
    classes: int
    fit: BertParameters
    counts: Sequence[int] = ()
    is_multilabel: bool = False

    def __post_init__(self) -> None:
        """Check the weights of classes.

        Raises:
            UserError: when there are not as many.
        """
        classes.check_weights(self.field, self.fit, self.classes)

    def model(self) -> nn.Sequential:
        """Return a network, int32 (n, tokens) -> logits (n, classes): what is pretrained is, the rest is not.

        Raises:
            UserError: when the pretrained weights cannot be had, or do not fit the tokenizer or the length.
        """
        from transformers import BertModel

        if not self.fit.pretrained:
            return self._network(BertModel(self.shape, add_pooling_layer=False))
        bert = pretrained.network(
            BertModel, self._source, self.fit.pretrained, config=self.shape, add_pooling_layer=False
        )
        return self._network(self._adapt(bert) if self.fit.lora_rank else bert)

    def merge(self, model: nn.Sequential) -> nn.Sequential:
        """Return a trained network whose adapters, if it has any, are part of its weights."""
        if self.fit.lora_rank:
            encoder: Any = model[0]
            encoder.bert = encoder.bert.merge_and_unload()
        return model

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of logits (n, classes) and the labels: see `measure_loss`."""
        return classes.measure_loss(self.fit, self._weights, outputs, labels, self.is_multilabel)

    @cached_property
    def _weights(self) -> tuple[float, ...]:
        return classes.weigh_classes(self.fit, self.counts)

    def optimizer_groups(self, trained: Mapping[str, Tensor]) -> list[Group]:
        """Return the trained parameters, vectors apart where weights decay."""
        return decay_groups(self.fit, trained)

    def tensor_plan(self, part: nn.Sequential, processes: int) -> "dict[str, ParallelStyle]":  # noqa: ARG002
        """Refuse: its layers are not shared.

        Raises:
            UserError: always.
        """
        raise UserError("task.trainer.tensor: a bert's layers are not shared; write tensor: 1")

    def flops(self) -> int:
        """Return those of one text of the full length: backward costs twice what forward does, with adapters as much.

        Forward, 2 for each weight and token, and 4 for each number of a token and each token that it attends to
        (Kaplan et al., Scaling Laws for Neural Language Models, 2020).
        """
        shape, width = self.shape, self.shape.hidden_size
        token = 8 * width**2 + 4 * width * shape.intermediate_size + 4 * width * self.length
        return (2 if self.fit.lora_rank else 3) * (
            shape.num_hidden_layers * self.length * token + 2 * width * self.classes
        )

    def random_rows(self, count: int, device: torch.device) -> AugmentedDataset:
        """Return texts of random tokens, all of the full length."""
        tokens = torch.randint(self.vocabulary, (count, self.length), dtype=torch.int32, device=device)
        labels = classes.draw_labels(count, self.classes, self.is_multilabel, device)
        return AugmentedDataset(gather_resident(tokens), labels, self.fit.batch_size, KEEP)

    @cached_property
    def shape(self) -> "BertConfig":
        """How many layers of which widths there are, without dropout: a resumed training takes the same steps.

        Raises:
            UserError: when it is that of another network, or does not fit the tokenizer or the length.
        """
        from transformers import BertConfig

        fit = self.fit
        if not fit.pretrained:
            if fit.width % fit.heads:
                raise UserError(f"{self.field}.heads: is {fit.heads}, which does not divide the width of {fit.width}")
            return plan_shape(fit, self.vocabulary, self.length, self.pad)
        config: BertConfig = pretrained.read(BertConfig, self._source, fit.pretrained, **WITHOUT_DROPOUT)
        self._check(config)
        return config

    @property
    def _source(self) -> str:
        return f"{self.field}.pretrained"

    def _network(self, bert: "BertModel | LoraModel") -> nn.Sequential:
        return nn.Sequential(Encoder(bert, self.pad), nn.Linear(self.shape.hidden_size, self.classes))

    def _adapt(self, bert: "BertModel") -> "LoraModel":
        """Return a network of which differences of attention's weights are trained alone (Hu et al., LoRA, 2021)."""
        from peft import LoraConfig, LoraModel

        fit = self.fit
        adapters = LoraConfig(r=fit.lora_rank, lora_alpha=fit.lora_alpha, target_modules=["query", "value"])
        return LoraModel(bert, {"default": adapters}, "default")

    def _check(self, shape: "BertConfig") -> None:
        field = self._source
        if shape.model_type != "bert":
            raise UserError(f"{field}: is a network of type {shape.model_type!r}; choose one of type 'bert'")
        if shape.hidden_act != "gelu":
            raise UserError(f"{field}: its activation is {shape.hidden_act!r}; choose a network with 'gelu'")
        pretrained.check_shape(field, shape, self.vocabulary, self.length)


def build(field: str, shape: Mapping[str, Any], values: Mapping[str, Any]) -> Bert:
    """Return a recipe; see `nightshift.models.recipes.build`."""
    return Bert(field, **shape, fit=check_parameters(BertParameters, field, values))
