"""The towers of images and of texts, as blocks that take and give what both hold of a batch, by name.

The layers are those of a `CLIPModel`, a `SiglipModel` or a `BertModel` of `transformers`; how they are called is here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

States = dict[str, Tensor]  # `image` and `text`, (n, tokens, width) or (n, width), and `tokens` int32 (n, length)
Mask = Callable[
    [Tensor], Tensor | None
]  # tokens -> which of them each attends to, bool (1 or n, 1, 1 or length, length)

IMAGE, TEXT, TOKENS, PIXELS = "image", "text", "tokens", "pixels"
LOGITS = "logits"
LEAST_WIDTH = 16  # of a stem's convolution
LARGEST_SCALE = 4.6052  # logarithm of 100; Radford et al., CLIP, 2021, section 2.5


def see_all(_: Tensor) -> None:
    """Return that each token attends to all."""


@dataclass(frozen=True)
class Tower:
    """The parts of a tower.

    Attributes:
        embedding: pixels or tokens to hidden states (n, tokens, width).
        layers: each changes hidden states.
        pooling: hidden states, of a text with its tokens, to (n, width).
        projection: of that to the embedding.
        width: of what it pools.
        activation: of its layers, as `transformers` names it.
        mask: what a text's tokens attend to.
    """

    embedding: nn.Module
    layers: Sequence[nn.Module]
    pooling: nn.Module
    projection: nn.Module
    width: int
    activation: str
    mask: Mask = see_all


class PixelEmbedding(nn.Module):
    """Pixels to the hidden states of patches: uint8 (n, side, side, channels) -> (n, patches, width).

    Gray images are repeated for each channel of a network that has several. The positions of patches are interpolated
    for images of another side.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, patches: Any, norm: nn.Module, mean: Sequence[float], deviation: Sequence[float]) -> None:
        super().__init__()
        self.patches, self.norm = patches, norm
        scales = [255 * channel for channel in deviation]
        shifts = [center / channel for center, channel in zip(mean, deviation, strict=True)]
        for name, values in (("scale", scales), ("shift", shifts)):
            self.register_buffer(name, torch.tensor(values)[:, None, None], persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Center pixels, embed patches, add their positions."""
        images = pixels.permute(0, 3, 1, 2).float() / self.scale - self.shift
        is_other = images.shape[-1] != self.patches.image_size
        hidden: Tensor = self.norm(self.patches(images, interpolate_pos_encoding=is_other))
        return hidden


class ConvolutionalStem(nn.Sequential):
    """Patches by convolutions and poolings that halve an image each: few images teach them more than large kernels.

    Xiao et al., Early Convolutions Help Transformers See Better, 2021. (n, channels, side, side) -> (n, width,
    side / patch, side / patch). In training, batches are normalized by their own statistics.

    Args:
        channels: of an image.
        patch: pixels of a patch's side, a power of 2.
        width: numbers of a patch.
    """

    def __init__(self, channels: int, patch: int, width: int) -> None:
        halvings = patch.bit_length() - 1
        widths = [channels, *(max(LEAST_WIDTH, width >> step) for step in reversed(range(halvings)))]
        layers = [layer for pair in pairwise(widths) for layer in _halve(*pair)]
        super().__init__(*layers, nn.Conv2d(widths[-1], width, 3, padding=1, bias=False), nn.BatchNorm2d(width))

    @property
    def weight(self) -> Tensor:
        """The first kernels, whose type `transformers` gives pixels."""
        first = self[0]
        assert isinstance(first, nn.Conv2d)
        return first.weight


def _halve(channels: int, width: int) -> list[nn.Module]:
    convolution = nn.Conv2d(channels, width, 3, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]


class TowerEmbedding(nn.Module):
    """Pixels and tokens to the hidden states of both towers: the first block.

    Attributes:
        has_texts: whether texts are read; else all blocks leave them out.
    """

    has_texts = True

    def __init__(self, image: nn.Module, text: nn.Module) -> None:
        super().__init__()
        self.image, self.text = image, text

    def forward(self, inputs: States) -> States:
        """Return the hidden states by tower."""
        images, tokens = {IMAGE: self.image(inputs[PIXELS])}, inputs[TOKENS]
        return images | ({TEXT: self.text(tokens.long()), TOKENS: tokens} if self.has_texts else {})


class TowerLayer(nn.Module):
    """A layer of one tower: a middle block, which passes on what the other tower has."""

    def __init__(self, tower: str, layer: nn.Module, mask: Mask) -> None:
        super().__init__()
        self.tower, self.layer, self.mask = tower, layer, mask

    def forward(self, states: States) -> States:
        """Return the states with those of its tower changed."""
        if self.tower not in states:
            return states
        mask = self.mask(states[TOKENS]) if self.tower == TEXT else None
        return states | {self.tower: self.layer(states[self.tower], attention_mask=mask)}


class TowerPooling(nn.Module):
    """Hidden states to one vector a row: the block before the last."""

    def __init__(self, image: nn.Module, text: nn.Module) -> None:
        super().__init__()
        self.image, self.text = image, text

    def forward(self, states: States) -> States:
        """Return a vector of each image and text, (n, width)."""
        images = {IMAGE: self.image(states[IMAGE])}
        return images | ({TEXT: self.text(states[TEXT], states[TOKENS])} if TEXT in states else {})


class ClassToken(nn.Module):
    """What CLIP pools of an image: its first token, normalized."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, hidden: Tensor) -> Tensor:
        """Return (n, width)."""
        pooled: Tensor = self.norm(hidden[:, 0])
        return pooled


class PatchPooling(nn.Module):
    """The mean of an image's patches and their maximum, which a small finding decides; both normalized, added."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, hidden: Tensor) -> Tensor:
        """Return (n, width)."""
        normal: Tensor = self.norm(hidden)
        return normal.mean(1) + normal.amax(1)


class AttentionPooling(nn.Module):
    """What SigLIP pools of an image: what a learned query finds in its patches."""

    def __init__(self, norm: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.norm, self.head = norm, head

    def forward(self, hidden: Tensor) -> Tensor:
        """Return (n, width)."""
        pooled: Tensor = self.head(self.norm(hidden))
        return pooled


class EndToken(nn.Module):
    """What CLIP pools of a text: its end token, or its last one where the tokenizer adds no end.

    Args:
        norm: of the hidden states.
        pad: id of the padding token; it may be that of the end.
        end: id of the end token; -1: there is none.
    """

    def __init__(self, norm: nn.Module, pad: int, end: int) -> None:
        super().__init__()
        self.norm, self.pad, self.end = norm, pad, end

    def forward(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """Return (n, width)."""
        is_end, is_token = (tokens == self.end).int(), tokens != self.pad
        last = (is_token.sum(1) - 1).clamp(min=0)
        position = torch.where(is_end.sum(1) > 0, is_end.argmax(1), last)
        pooled: Tensor = self.norm(hidden[torch.arange(len(tokens), device=tokens.device), position])
        return pooled


class LastToken(nn.Module):
    """What SigLIP pools of a text: its last token, which may be padding."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, hidden: Tensor, _: Tensor) -> Tensor:
        """Return (n, width)."""
        pooled: Tensor = self.norm(hidden[:, -1])
        return pooled


class TokenMean(nn.Module):
    """What Sentence-BERT pools of a text: the mean over its tokens (Reimers & Gurevych, 2019)."""

    def __init__(self, pad: int) -> None:
        super().__init__()
        self.pad = pad

    def forward(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """Return (n, width)."""
        weights = see_tokens(self.pad, tokens).flatten(1).unsqueeze(2).to(hidden.dtype)
        return (hidden * weights).sum(1) / weights.sum(1)


class Heads(nn.Module):
    """Embeddings of both towers, and logits of findings from the image alone: the last block.

    The temperature, and the bias of the sigmoid, are parts of the embeddings, so that the loss has no parameters: the
    product of an image's and a text's is what the loss takes.

    Attributes:
        is_serving: whether it gives probabilities and embeddings of unit length.
        tells_findings: whether it gives logits to a loss.
    """

    is_serving = False
    tells_findings = True

    def __init__(
        self, image: nn.Module, text: nn.Module, findings: nn.Linear, scale: Tensor, bias: Tensor | None
    ) -> None:
        super().__init__()
        self.image, self.text, self.findings = image, text, findings
        self.logit_scale = nn.Parameter(scale.detach().reshape(1))
        self.logit_bias = None if bias is None else nn.Parameter(bias.detach().reshape(1))

    def forward(self, pooled: States) -> States:
        """Return what the loss takes, or what is served."""
        if self.is_serving:
            image, text = self._embed(pooled)
            embeddings = {"image_embedding": image, "text_embedding": text, "embedding": torch.cat([image, text], 1)}
            return {"score": self._find(pooled).sigmoid(), **embeddings}
        findings = {LOGITS: self._find(pooled)} if self.tells_findings else {}
        return findings | (self._compare(pooled) if TEXT in pooled else {})

    def _find(self, pooled: States) -> Tensor:
        logits: Tensor = self.findings(pooled[IMAGE]).float()
        return logits

    def _embed(self, pooled: States) -> tuple[Tensor, Tensor]:
        """Return embeddings of images and of texts, of unit length."""
        image, text = self.image(pooled[IMAGE]).float(), self.text(pooled[TEXT]).float()
        return nn.functional.normalize(image, dim=1), nn.functional.normalize(text, dim=1)

    def _compare(self, pooled: States) -> States:
        """Return embeddings whose products the loss takes."""
        image, text = self._embed(pooled)
        image = image * self.logit_scale.clamp(max=LARGEST_SCALE).exp()
        if self.logit_bias is not None:
            image = torch.cat([image, self.logit_bias.expand(len(image), 1)], 1)
            text = torch.cat([text, text.new_ones(len(text), 1)], 1)
        return {IMAGE: image, TEXT: text}


def see_before(tokens: Tensor) -> Tensor:
    """Return that each token attends to those before it, bool (1, 1, length, length)."""
    length = tokens.shape[1]
    return torch.ones((1, 1, length, length), dtype=torch.bool, device=tokens.device).tril()


def see_tokens(pad: int, tokens: Tensor) -> Tensor:
    """Return that all attend to what is no padding, bool (n, 1, 1, length); of a text without tokens, to its start."""
    is_first = torch.arange(tokens.shape[1], device=tokens.device) == 0
    return ((tokens != pad) | is_first)[:, None, None]


def make_compact(tower: Tower, channels: int, patch: int) -> Tower:
    """Return CLIP's image tower, from scratch, with a convolutional stem and the pooling of all patches."""
    assert isinstance(tower.embedding, PixelEmbedding)
    assert isinstance(tower.pooling, ClassToken)
    tower.embedding.patches.patch_embedding = ConvolutionalStem(channels, patch, tower.width)
    return replace(tower, pooling=PatchPooling(tower.pooling.norm))


def image_tower(model: Any, side: int, mean: Sequence[float], deviation: Sequence[float]) -> Tower:
    """Return the image tower of a `CLIPModel` or a `SiglipModel`.

    Args:
        model: whose positions are interpolated for another side than its own.
        side: pixels of an image's.
        mean: of each channel, by which images are normalized.
        deviation: of each channel.
    """
    vision, shape = model.vision_model, model.config.vision_config
    resize_positions(vision.embeddings, side)
    is_clip = model.config.model_type == "clip"
    return Tower(
        PixelEmbedding(vision.embeddings, vision.pre_layrnorm if is_clip else nn.Identity(), mean, deviation),
        vision.encoder.layers,
        ClassToken(vision.post_layernorm) if is_clip else AttentionPooling(vision.post_layernorm, vision.head),
        model.visual_projection if is_clip else nn.Identity(),
        shape.hidden_size,
        shape.hidden_act,
    )


def text_tower(model: Any, pad: int, end: int) -> Tower:
    """Return the text tower of a `CLIPModel` or a `SiglipModel`.

    Args:
        model: of both.
        pad: id of the padding token.
        end: id of the token that CLIP pools; -1: the last one.
    """
    text, shape = model.text_model, model.config.text_config
    is_clip, norm = model.config.model_type == "clip", text.final_layer_norm
    return Tower(
        text.embeddings,
        text.encoder.layers,
        EndToken(norm, pad, end) if is_clip else LastToken(norm),
        model.text_projection if is_clip else text.head,
        shape.hidden_size,
        shape.hidden_act,
        see_before if is_clip else see_all,
    )


def bert_tower(model: Any, pad: int, width: int) -> Tower:
    """Return a `BertModel` as a text tower, with an untrained projection to an embedding of a width."""
    hidden = model.config.hidden_size
    return Tower(
        model.embeddings,
        model.encoder.layer,
        TokenMean(pad),
        nn.Linear(hidden, width, bias=False),
        hidden,
        model.config.hidden_act,
        partial(see_tokens, pad),
    )


@torch.no_grad()
def resize_positions(patches: Any, side: int) -> None:
    """Interpolate the positions of patches for images of another side."""
    if side == patches.image_size:
        return
    count = (side // patches.patch_size) ** 2
    own, others = patches.position_embedding.weight, patches.num_positions - patches.num_patches
    positions = patches.interpolate_pos_encoding(own.new_empty(1, count + others, own.shape[1]), side, side)
    patches.position_embedding = nn.Embedding(positions.shape[1], positions.shape[2], _weight=positions[0].clone())
    patches.num_positions, patches.num_patches, patches.image_size = count + others, count, side
    patches.position_ids = torch.arange(patches.num_positions)[None]
