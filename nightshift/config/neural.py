"""How networks are trained, whatever the task: batches and precision, and how processes share the work."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

import annotated_types
from pydantic import Field, ValidationInfo, field_validator

from nightshift.config.section import INTEGER, BatchSize, ConfigSection, Epochs, Positive, Processes, Threads

LearningRate = Annotated[float, annotated_types.Interval(gt=0, le=1000)]


class Precision(StrEnum):
    """What a network computes in; its parameters are float32 always."""

    FLOAT32 = "float32"
    BF16 = "bf16"
    FP16 = "fp16"


class PipelineSchedule(StrEnum):
    """The order in which a pipeline's stages work; but for the first, every process has two stages."""

    ONE_F_ONE_B = "1f1b"
    INTERLEAVED = "interleaved"
    ZERO_BUBBLE = "zero-bubble"


class Compression(StrEnum):
    """What gradients are compressed to before processes that replicate the network exchange them."""

    NONE = "none"
    BF16 = "bf16"
    POWER_SGD = "powersgd"


class Compile(StrEnum):
    """What torch.compile makes of each block of a network."""

    NONE = "none"
    DEFAULT = "default"
    CUDA_GRAPHS = "cuda-graphs"


class Recompute(StrEnum):
    """Which activations of a block are computed again in the backward pass instead of being kept."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Decay(StrEnum):
    """How the learning rate falls to 0."""

    LINEAR = "linear"
    COSINE = "cosine"


class Keep(StrEnum):
    """Whose weights become the model: those after the last step, or after the one with the lowest validation loss."""

    LAST = "last"
    BEST = "best"


class Fit(ConfigSection):
    """How a network is fitted; a recipe adds what describes the network itself."""

    compares_rows: ClassVar[bool] = False  # whether the loss is of a whole batch, whose rows it compares

    epochs: Epochs = 15
    batch_size: BatchSize = Field(256, description="rows of a step, over all processes")
    learning_rate: LearningRate = Field(0.006, description="of Adam, at most; falls to 0 after the last step")
    warmup: Annotated[float, annotated_types.Interval(ge=0, lt=1)] = Field(
        0, description="share of the steps over which the learning rate rises first"
    )
    decay: Decay = Decay.LINEAR
    weight_decay: Annotated[float, annotated_types.Interval(ge=0, le=1)] = Field(
        0, description="share of matrices and kernels that a step takes off, times its learning rate (AdamW)"
    )
    ema_decay: Annotated[float, annotated_types.Interval(ge=0, lt=1)] = Field(
        0,
        description="share of the weights' moving average that a step leaves; the average is kept; 0: the last weights",
    )
    threads: Threads = Field(
        1, description="on the CPU; more pay off for wide networks only, and wait for each other on a busy machine"
    )
    precision: Precision = Precision.FLOAT32
    microbatches: BatchSize = Field(
        1, description="pieces of a batch: their gradients are accumulated, and they fill a pipeline"
    )
    clip: Annotated[float, annotated_types.Interval(ge=0, le=1e6)] = Field(
        0, description="largest norm of the gradients; 0: no limit"
    )
    validation: Annotated[float, annotated_types.Interval(ge=0, le=0.5)] = Field(
        0, description="share of the training rows, the newest, that are held out to measure a loss of; 0: none"
    )
    validations: BatchSize = Field(10, description="how often the validation loss is measured, at equal distances")
    keep: Keep = Field(Keep.LAST, description="weights that become the model; best: by the validation loss")
    patience: Annotated[int, annotated_types.Interval(ge=0)] = Field(
        0, description="measurements without a lower validation loss after which the training ends; 0: it never does"
    )
    recompute: Recompute = Field(
        Recompute.NONE,
        description="activations of a block that are computed again backward, not kept: all (full), or all but those "
        "of attention and of every second matrix product or convolution (selective)",
    )
    compile: Compile = Field(
        Compile.NONE,
        description="by torch.compile, block by block; cuda-graphs: a block's kernels are launched as one, on one GPU",
    )

    @field_validator("keep", "patience")
    @classmethod
    def _has_validation(cls, value: Any, info: ValidationInfo) -> Any:
        if value not in (Keep.LAST, 0) and not info.data.get("validation"):
            raise ValueError("there is no validation loss to decide by; set validation, such as 0.1, or leave this out")
        return value


class Trainer(ConfigSection):
    """How the processes that torchrun has started share a network's training; those not named here replicate it."""

    nodes: Processes = Field(1, description="machines; several are pods of a TrainJob, or started by you")
    processes: Processes | None = Field(
        None,
        description="on each machine, which the training step starts; null: one, and on several machines one a GPU",
    )
    shard: Processes = Field(1, description="processes that share parameters, gradients and optimizer state (FSDP2)")
    context: Processes = Field(
        1, description="of the processes that share parameters, so many share the tokens of each row too"
    )
    tensor: Processes = Field(1, description="processes that share each layer")
    pipeline: Processes = Field(1, description="processes that share the layers, one after the other")
    schedule: PipelineSchedule = PipelineSchedule.ONE_F_ONE_B
    zero: Annotated[Literal[0, 2, 3], INTEGER] = Field(
        0,
        description="ZeRO by FSDP2: all processes share gradients and optimizer state (2), and parameters (3)",
    )
    compression: Compression = Compression.NONE
    bucket_mb: Annotated[float, annotated_types.Interval(gt=0, le=100_000)] = Field(
        25, description="of gradients that replicas exchange at once, while they compute the others"
    )
    hang_seconds: Positive = Field(
        600, description="that a process may keep the others waiting, before it is named and the training begins again"
    )
    checkpoint_seconds: Positive = Field(300, description="between two checkpoints of a training that takes longer")

    @property
    def sharing(self) -> int:
        """How many processes share one copy of a network: more of them are a multiple of it."""
        return self.shard * self.tensor * self.pipeline

    def describe_layout(self) -> str:
        """Return the fields that only several processes can follow, as YAML has them; empty when all are defaults."""
        fields = self.model_dump(
            mode="json", exclude_defaults=True, exclude={"nodes", "processes", "hang_seconds", "checkpoint_seconds"}
        )
        return ", ".join(f"{name}: {value}" for name, value in fields.items())
