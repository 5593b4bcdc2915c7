"""Skew between a day's scores and the endpoint's responses to the same events, by its prediction log."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import pandas as pd

from nightshift import storage

TOLERANCE = 1e-6  # by which float32 scores of the same graph may differ
EVENTS, ITEMS = ("event_id", "event_time"), ("content",)  # what events, and images or texts, are known by


@dataclass(frozen=True)
class ServingSkew:
    """A day's scores beside the endpoint's.

    Attributes:
        events: of the day.
        answered: those of them that the endpoint has scored, by whatever version.
        compared: those that it has scored by the version that scores the day.
        differing: those of these with another score, by more than `TOLERANCE`.
        largest: by how much a score differs at most.
    """

    events: int
    answered: int
    compared: int
    differing: int
    largest: float

    @property
    def sentences(self) -> list[str]:
        """Sentences for a person; nothing where the endpoint is not asked, or its log is elsewhere."""
        if not self.answered:
            return []
        lines = [f"The endpoint has answered {self.answered:,} of {self.events:,}, {self.compared:,} by this version."]
        if self.differing:
            lines.append(
                f"{self.differing:,} of these had another score when they were answered, by {self.largest:.4f} at "
                "most: it has seen other events or labels than the lake."
            )
        elif self.compared:
            lines.append("Each of these had the same score when it was answered.")
        return lines


def compare(folder: str, day: date, scored: pd.DataFrame, version: str) -> ServingSkew:
    """Compare a day's scores with what the endpoint has answered on the day and the next.

    Args:
        folder: URI of the prediction log.
        day: of the events.
        scored: `score` and what events (`EVENTS`) or items (`ITEMS`) are known by, a row each.
        version: that scored them.
    """
    keys = list(EVENTS if "content" not in scored else ITEMS)
    log, known = _log(folder, day, keys), _normalize_keys(scored[[*keys, "score"]])
    if log is None:
        return ServingSkew(len(known), 0, 0, 0, 0.0)
    own = known.merge(log[log["version"] == int(version)].drop_duplicates(keys, keep="last"), on=keys)
    gaps = (own["score_x"].astype(float) - own["score_y"].astype(float)).abs()
    answered = known.merge(log[keys].drop_duplicates(), on=keys)
    differing = int((gaps > TOLERANCE).sum())
    return ServingSkew(len(known), len(answered), len(own), differing, float(gaps.max()) if len(gaps) else 0.0)


def _log(folder: str, day: date, keys: Sequence[str]) -> pd.DataFrame | None:
    """Read the versions and scores of the log, oldest first."""
    folders = [storage.join(folder, f"date={log_day}") for log_day in (day, day + timedelta(days=1))]
    uris = [storage.join(partition, name) for partition in folders for name in storage.names(partition)]
    if not uris:
        return None
    columns = ["scored_at", "version", "score", *keys]
    answers = pd.concat([storage.read_frame(uri, columns) for uri in uris], ignore_index=True)
    return _normalize_keys(answers.dropna(subset=list(keys)).sort_values("scored_at", kind="stable"))


def _normalize_keys(rows: pd.DataFrame) -> pd.DataFrame:
    """Write keys alike: the log has ids as text, and times with their zone."""
    if "event_id" not in rows:
        return rows
    times = pd.to_datetime(rows["event_time"], utc=True).dt.as_unit("us")
    return rows.assign(event_id=rows["event_id"].astype(str), event_time=times)
