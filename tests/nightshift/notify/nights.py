"""Nights to notify of."""

from datetime import date, timedelta
from typing import Any

from nightshift.config.notify import NightEvent, Notify, Receiver
from nightshift.contracts.notification import Notification
from nightshift.notify.outbox import Night

DAY = date(2026, 11, 28)
VARIABLE = "NIGHTSHIFT_NOTIFY"


def notification(event: NightEvent = NightEvent.FAILED, **changes: Any) -> Notification:
    usual = {
        "event": event,
        "use_case": "fraud",
        "pipeline": "training",
        "subject": "features",
        "run": "fraud-training-1",
        "logical_date": DAY,
        "sentence": "The run failed in features.",
        "link": "https://nights.example.com/runs/fraud-training-1",
    }
    return Notification.model_validate(usual | changes)


def night(*notifications: Notification, days: int = 0, complete: bool = False, use_case: str = "fraud") -> Night:
    return Night(use_case, "training", DAY + timedelta(days=days), complete, list(notifications))


def notify(**receiver: Any) -> Notify:
    return Notify(receivers=[Receiver(**{"variable": VARIABLE} | receiver)])
