"""Weights to begin with, as `transformers` reads them: from a folder, or from a commit of the Hugging Face Hub."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import annotated_types
from pydantic import Field, ValidationInfo, field_validator, model_validator

from nightshift.config.neural import Fit
from nightshift.config.section import Width
from nightshift.hub import snapshots
from nightshift.runtime.errors import UserError

GENTLE = {"warmup": 0.1, "clip": 1.0}  # of what is pretrained; Devlin et al., BERT, 2019, appendix A.2
FASTER = 10  # adapters learn at so many times the rate of whole weights (Hu et al., LoRA, 2021, appendix D)


class Continued(Fit):
    """How a network is fitted that may begin with somebody's weights."""

    pretrained_rate: ClassVar[float | None] = None  # default learning rate of pretrained weights; None: by the width

    pretrained: str = Field(
        "",
        description="folder with config.json and model.safetensors, or hf://organization/name@commit of the "
        "Hugging Face Hub; empty: from scratch. With it the defaults are a lower learning_rate, a warmup of 0.1 and a "
        "clip of 1",
    )

    @model_validator(mode="before")
    @classmethod
    def _begin_gently(cls, values: Any) -> Any:
        """Change pretrained weights less than random ones by default."""
        if not values.get("pretrained"):
            return values
        if cls.pretrained_rate is None:
            return {**GENTLE, **values}
        rate = cls.pretrained_rate * (FASTER if values.get("lora_rank") else 1)
        return {**GENTLE, "learning_rate": rate, **values}


class Pretrained(Continued):
    """How a network is fitted whose pretrained weights may stay as they are."""

    frozen: bool = Field(False, description="true: pretrained weights stay, and embeddings go to logistic regression")

    @field_validator("frozen")
    @classmethod
    def _keeps_something(cls, value: bool, info: ValidationInfo) -> bool:
        if value and not info.data.get("pretrained"):
            raise ValueError("there is nothing pretrained to keep; name it as `pretrained`, or leave this out")
        return value


class Adapted(Continued):
    """How a network is fitted of whose pretrained matrices only differences may be learned (Hu et al., LoRA, 2021)."""

    lora_rank: Annotated[int, annotated_types.Interval(ge=0, le=65_536)] = Field(
        0, description="of what is learned beside pretrained matrices, which stay; 0: all weights are trained"
    )
    lora_alpha: Width = Field(16, description="these products are scaled by it over their number")

    @field_validator("lora_rank")
    @classmethod
    def _adapts_something(cls, value: int, info: ValidationInfo) -> int:
        if value and not info.data.get("pretrained"):
            raise ValueError("there is nothing pretrained to adapt; name it as `pretrained`, or leave this out")
        if value and info.data.get("frozen"):
            raise ValueError("`frozen` trains nothing that could be adapted; leave one of them out")
        return value


def check_shape(field: str, shape: Any, vocabulary: int, length: int) -> None:
    """Refuse a network that does not fit the tokenizer, or takes fewer tokens than the task's.

    Args:
        field: of the config that names it, for messages.
        shape: its config.
        vocabulary: numbers that tokens have.
        length: tokens of a row.

    Raises:
        UserError: when it does not fit.
    """
    if shape.vocab_size < vocabulary:
        raise UserError(
            f"{field}: has embeddings of {shape.vocab_size:,} tokens, and task.tokenizer has {vocabulary:,}; "
            "name the tokenizer.json that lies beside the weights"
        )
    if length > shape.max_position_embeddings:
        raise UserError(f"task.length: is {length}; the network takes at most {shape.max_position_embeddings}")


def read_normalization(
    field: str, name: str, channels: int, default: tuple[Sequence[float], Sequence[float]]
) -> tuple[Sequence[float], Sequence[float]]:
    """Return the mean and deviation of each channel by which a network of images was pretrained.

    Args:
        field: of the config that names it, for messages.
        name: see `locate`.
        channels: that the network takes.
        default: both, where no file beside the weights says them.

    Raises:
        UserError: when there is not one for each channel.
    """
    from transformers.models.auto.image_processing_auto import get_image_processor_config

    config = get_image_processor_config(locate(field, name))
    normalization = config.get("image_mean", default[0]), config.get("image_std", default[1])
    if any(len(values) != channels for values in normalization):
        raise UserError(
            f"{field}: has {len(normalization[0])} means for {channels} channels; write "
            "image_mean and image_std into a preprocessor_config.json beside the weights"
        )
    return normalization


def locate(field: str, name: str) -> Path:
    """Return the folder of pretrained weights.

    Args:
        field: of the config that names it, for messages.
        name: folder, or `hf://organization/name@commit`.

    Raises:
        UserError: when there is no such folder, or the Hub's has no commit.
        UnavailableError: when the Hub does not answer.
    """
    folder = Path(snapshots.download(field, name) if snapshots.is_reference(name) else name)
    if not folder.is_dir():
        raise UserError(
            f"{field}: {name!r} is no folder; name one with config.json and model.safetensors, or "
            "hf://organization/name@commit"
        )
    return folder


def network(kind: Any, field: str, name: str, **options: Any) -> Any:
    """Return a network of `transformers` with its weights.

    Args:
        kind: its class.
        field: of the config that names it, for messages.
        name: see `locate`.
        options: what the class is given, such as its shape as `config`.

    Raises:
        UserError: when it cannot be read, or does not have all weights.
        UnavailableError: when the Hub does not answer.
    """
    model, info = read(kind, field, name, output_loading_info=True, use_safetensors=True, **options)
    if info["missing_keys"]:
        raise UserError(f"{field}: {name!r} has no weights of {min(info['missing_keys'])}, and others")
    return model


def read(kind: Any, field: str, name: str, **options: Any) -> Any:
    """Return what `kind.from_pretrained` does; see `network`."""
    from safetensors import SafetensorError
    from transformers.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    folder = locate(field, name)
    try:
        return kind.from_pretrained(folder, **options)
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:  # KeyError: of an empty index
        why = " ".join(str(error).split())[:200]
        raise UserError(
            f"{field}: {name!r} cannot be read ({why}); name a folder with config.json and model.safetensors"
        ) from None
