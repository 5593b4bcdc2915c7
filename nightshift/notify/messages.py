"""Writes one message of one or several notifications, in the format of each kind of receiver."""

import json
from collections.abc import Sequence
from email.message import EmailMessage
from typing import Any

from nightshift import storage
from nightshift.config.notify import URGENT
from nightshift.contracts.notification import Notification

SHOWN = 50  # lines of a digest
LENGTH = 1000  # characters of a line; PagerDuty takes 1,024 of a summary


def write_subject(notifications: Sequence[Notification]) -> str:
    """Return one line."""
    first, *others = notifications
    if not others:
        return _shorten(first.line)
    use_cases = sorted({notification.use_case for notification in notifications})
    return _shorten(f"{len(notifications)} notifications of {', '.join(use_cases)}")


def write_text(notifications: Sequence[Notification]) -> str:
    """Return the sentences with their links, a digest's below its subject."""
    lines = [f"{_shorten(notification.line)}\n{notification.link}" for notification in notifications[:SHOWN]]
    if len(notifications) > 1:
        lines.insert(0, write_subject(notifications))
    if more := len(notifications) - SHOWN:
        lines += [f"and {more} more"] if more > 0 else []
    return "\n\n".join(lines)


def encode_webhook(notifications: Sequence[Notification]) -> bytes:
    """Return the JSON of a webhook: a text, and every notification with its fields."""
    entries = [notification.model_dump(mode="json") for notification in notifications]
    return _encode({"text": write_text(notifications), "notifications": entries})


def encode_slack(notifications: Sequence[Notification]) -> bytes:
    """Return the JSON of a Slack incoming webhook; where & < > are text, Slack finds no mention or channel."""
    text = write_text(notifications).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _encode({"text": text})


def encode_pagerduty(notifications: Sequence[Notification], key: str) -> bytes:
    """Return an event of PagerDuty's Events API v2 that triggers an alert."""
    is_urgent = any(notification.event in URGENT for notification in notifications)
    payload = {
        "summary": write_subject(notifications),
        "source": "nightshift",
        "severity": "error" if is_urgent else "warning",
        "custom_details": {"text": write_text(notifications)},
    }
    causes = [notification.cause for notification in notifications]
    return _encode(_make_event("trigger", causes, key) | {"payload": payload})


def encode_pagerduty_end(causes: Sequence[str], key: str) -> bytes:
    """Return an event of PagerDuty's Events API v2 that resolves the alert of some causes."""
    return _encode(_make_event("resolve", causes, key))


def _make_event(action: str, causes: Sequence[str], key: str) -> dict[str, Any]:
    return {"routing_key": key, "event_action": action, "dedup_key": storage.fingerprint(list(causes))}


def write_email(notifications: Sequence[Notification], sender: str, recipients: str) -> EmailMessage:
    """Return an e-mail."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, recipients, write_subject(notifications)
    message.set_content(write_text(notifications))
    return message


def _encode(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LENGTH else f"{line[: LENGTH - 3]}..."
