"""Support tickets to begin with: which queue each belongs to, by customer, product, channel and what it is about.

As in `nightshift/tasks/tabular/simulator.py`, any day can be made alone and equals that day of any longer run. A queue
is drawn from probabilities, so that no model knows it for sure.
"""

from dataclasses import dataclass
from datetime import date
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.config.multiclass import TicketSimulator
from nightshift.tasks.base import ingestion as base

QUEUES = ("account", "billing", "delivery", "returns", "technical")
UNSEEN = "security"
PRODUCTS = ("app", "camera", "laptop", "phone", "printer", "speaker")
CHANNELS = ("chat", "email", "form", "phone")
PLANS = ("free", "plus", "business")
WEEK = (1.3, 1.2, 1.1, 1.0, 1.0, 0.6, 0.5)  # from Monday: tickets as a multiple of the mean
HOURS = (0.2, 0.1, 0.1, 0.1, 0.1, 0.2, 0.5, 1, 2, 3, 3, 3, 2, 2, 3, 3, 2.5, 2, 2, 2, 1.5, 1, 0.7, 0.4)
IDS_A_DAY = 10**9  # more rows than any day has, so that ids differ between days
SHARPNESS = 1.6  # of probabilities: at 0 every queue is as likely as any other
WORLD, TICKETS, CORRUPTION, CHANGED = range(4)  # the purpose of a stream of random numbers

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Customers:
    """Who write tickets.

    Attributes:
        weights: share of the tickets that each writes, (customers,).
        products: number of each one's product, (customers,).
        plans: number of each one's plan, (customers,).
        habits: how much likelier each queue is than usual, as a logit, (customers, queues).
        by_product: the same of products, (products, queues).
        by_channel: the same of channels, (channels, queues).
    """

    weights: Floats
    products: npt.NDArray[np.int64]
    plans: npt.NDArray[np.int64]
    habits: Floats
    by_product: Floats
    by_channel: Floats


class SimulationTask(base.SimulationTask):
    """Tickets, and the queues they belonged to."""

    columns = (
        "ticket_id", "opened_at", "customer_id", "product", "plan", "channel", "order_value", "words", "attachments",
        "queue",
    )  # fmt: skip

    def day(self, config: TicketSimulator, on: date, labels_due: date | None = None) -> pd.DataFrame:
        frame = _write_tickets(config, on)
        if config.drifts(on):
            frame["queue"] = _change(config, on, frame["queue"])
        if labels_due is not None and not config.labels_arrived(on, labels_due):
            frame["queue"] = pd.Series([None] * len(frame), dtype=object)
        return _corrupt(frame, config, on) if config.corrupt_share else frame


def _write_tickets(config: TicketSimulator, on: date) -> pd.DataFrame:
    world, draw = _make_customers(config.seed, config.customers), _rng(config, TICKETS, on)
    count = max(1, round(config.items * WEEK[on.weekday()] * (config.volume_factor if config.drifts(on) else 1)))
    hours = draw.choice(len(HOURS), count, p=np.array(HOURS) / sum(HOURS))
    seconds = np.sort(hours * 3600 + draw.integers(0, 3600, count))
    customer = draw.choice(config.customers, count, p=world.weights)
    product, plan = world.products[customer], world.plans[customer]
    channel = draw.choice(len(CHANNELS), count, p=(0.3, 0.35, 0.2, 0.15))
    value = np.where(product == 0, 0.0, draw.gamma(2, 60, count).round(2))
    attachments = draw.poisson(0.4 + 0.8 * (channel == 1))
    words = np.maximum(3, draw.gamma(2, 30, count) * (1 + (channel == 1))).astype(int)
    logits = world.habits[customer] + world.by_product[product] + world.by_channel[channel]
    logits += _weigh(value, words, attachments, seconds // 3600)
    queues = _draw_classes(SHARPNESS * logits, draw)
    return pd.DataFrame(
        {
            "ticket_id": on.toordinal() * IDS_A_DAY + np.arange(count),
            "opened_at": np.datetime64(on, "us") + seconds.astype("timedelta64[s]"),
            "customer_id": customer,
            "product": np.array(PRODUCTS)[product],
            "plan": np.array(PLANS)[plan],
            "channel": np.array(CHANNELS)[channel],
            "order_value": value,
            "words": words.astype(float),
            "attachments": attachments.astype(float),
            "queue": pd.Series(np.array(QUEUES)[queues], dtype=object),
        }
    )


def _weigh(value: Floats, words: Floats, attachments: Floats, hour: npt.NDArray[np.int64]) -> Floats:
    """Return how much likelier each queue is by what a ticket is like, as logits, (n, queues)."""
    is_order, is_night = value > 0, (hour < 7) | (hour > 20)
    logits = [
        1.5 * (words < 40) - 1.0 * is_order,  # account
        1.5 * np.log1p(value / 200) - 0.5 * is_night,  # billing
        np.where(is_order, 1.6 - 0.6 * attachments, -3.0),  # delivery
        np.where(is_order, 1.6 + 1.2 * (attachments > 1) - np.abs(np.log1p(value) - 4.5), -3.0),  # returns
        0.012 * words + 0.5 * is_night,  # technical
    ]
    return np.stack(logits, axis=1)


def _draw_classes(logits: Floats, draw: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return the number of a class for each row, drawn from the softmax of its logits; Gumbel's trick."""
    numbers: npt.NDArray[np.int64] = (logits + draw.gumbel(size=logits.shape)).argmax(1)
    return numbers


@lru_cache(maxsize=4)
def _make_customers(seed: int, count: int) -> Customers:
    draw = np.random.default_rng([seed, WORLD])
    weights, queues = draw.gamma(1.0, 1.0, count), len(QUEUES)
    return Customers(
        weights / weights.sum(),
        draw.integers(0, len(PRODUCTS), count),
        draw.choice(len(PLANS), count, p=(0.6, 0.3, 0.1)),
        draw.normal(0, 0.3, (count, queues)),
        draw.normal(0, 1.0, (len(PRODUCTS), queues)),
        draw.normal(0, 0.6, (len(CHANNELS), queues)),
    )


def _change(config: TicketSimulator, on: date, queues: pd.Series) -> pd.Series:
    """Return queues of which some are any other, and some are of a class that nobody has seen."""
    draw = _rng(config, CHANGED, on)
    any_queue = pd.Series(draw.choice(QUEUES, len(queues)), dtype=object)
    shuffled = queues.mask(draw.random(len(queues)) < config.shuffled, any_queue)
    return shuffled.mask(draw.random(len(queues)) < config.new_class, UNSEEN)


def _corrupt(frame: pd.DataFrame, config: TicketSimulator, on: date) -> pd.DataFrame:
    """Spoil a share of the rows, each in one of the ways that ingestion quarantines, in turn."""
    rows = np.flatnonzero(_rng(config, CORRUPTION, on).random(len(frame)) < config.corrupt_share)
    frame = frame.astype({"opened_at": str, "order_value": object, "customer_id": object})
    spoiled: tuple[tuple[str, str | float | None], ...] = (
        ("opened_at", "yesterday"),
        ("queue", "no such queue"),
        ("order_value", -1.0),
        ("customer_id", None),
    )
    for turn, (column, value) in enumerate(spoiled):
        frame.loc[rows[turn :: len(spoiled)].tolist(), column] = value
    return frame


def _rng(config: TicketSimulator, stream: int, on: date) -> np.random.Generator:
    return np.random.default_rng([config.seed, stream, on.toordinal()])
