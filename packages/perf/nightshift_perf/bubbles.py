"""How long the stages of a pipeline wait for each other: what each has computed, replayed in the same order.

A piece of a batch begins when its process is free and what it needs is there: forward, what the stage before gives;
backward, what the one after does. Messages take no time in a replay, and every process has a core of its own, so it
shows the bubble alone, on a busy machine too.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import NamedTuple

from nightshift.config.neural import PipelineSchedule, Trainer

FORWARD, BACKWARD = "forward", "backward"  # and `weight`, which waits for nobody
Key = tuple[str, int, int]


class Piece(NamedTuple):
    """A piece of a batch that a stage computes: in which pass, the stage, the piece's number, and its seconds."""

    work: str
    stage: int
    number: int
    seconds: float


Orders = Sequence[Sequence[Piece]]  # of each process of a pipeline, in the order in which it computes them


def replay(orders: Orders) -> float:
    """Return the seconds from the first piece's start to the last one's end.

    Raises:
        ValueError: when processes wait for each other for ever.
    """
    last_stage = max(piece.stage for pieces in orders for piece in pieces)
    ends: dict[Key, float] = {}
    clocks, left = [0.0] * len(orders), [list(reversed(pieces)) for pieces in orders]
    while any(left):
        before = len(ends)
        for process, pieces in enumerate(left):
            while pieces and (began := _find_start(pieces[-1], last_stage, ends)) is not None:
                piece = pieces.pop()
                clocks[process] = max(clocks[process], began) + piece.seconds
                ends[piece[:3]] = clocks[process]
        if len(ends) == before:
            raise ValueError(f"stages wait for each other for ever: {left}")
    return max(clocks)


def _find_start(piece: Piece, last_stage: int, ends: Mapping[Key, float]) -> float | None:
    """Return when what a piece needs is there; None while it is not."""
    needed = {FORWARD: (FORWARD, piece.stage - 1, piece.number), BACKWARD: (BACKWARD, piece.stage + 1, piece.number)}
    is_input = piece.stage == (0 if piece.work == FORWARD else last_stage)
    return 0.0 if is_input or piece.work not in needed else ends.get(needed[piece.work])


def measure_bubble(orders: Orders) -> float:
    """Return the share of a replay in which processes wait, in their mean, 0..1."""
    return 1 - mean(map(measure_work, orders)) / replay(orders)


def measure_work(pieces: Iterable[Piece]) -> float:
    """Return the seconds that pieces take."""
    return sum(piece.seconds for piece in pieces)


def even_out(orders: Orders) -> Orders:
    """Return the same pieces as if all stages computed equally long, each pass by itself."""
    seconds: dict[str, list[float]] = {}
    for piece in (piece for pieces in orders for piece in pieces):
        seconds.setdefault(piece.work, []).append(piece.seconds)
    means = {work: mean(values) for work, values in seconds.items()}
    return [[piece._replace(seconds=means[piece.work]) for piece in pieces] for pieces in orders]


def formula(trainer: Trainer, pieces: int) -> float | None:
    """Return the bubble of equal stages, (p - 1) / (v m + p - 1), 0..1; None where no such formula holds.

    Of p processes with v stages each, and m pieces of a batch (Narayanan et al., Efficient Large-Scale Language Model
    Training on GPU Clusters, 2021, section 2.2).
    """
    if trainer.schedule is PipelineSchedule.ZERO_BUBBLE:
        return None
    stages = 2 if trainer.schedule is PipelineSchedule.INTERLEAVED else 1
    return (trainer.pipeline - 1) / (stages * pieces + trainer.pipeline - 1)
