"""A week of a use case's nights in a workspace, written without training: for pages, commands and their pictures.

Version 5 is live, 6 waits for a person's approval, 7 was refused; `amount` drifts since the 25th; scoring failed twice.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nightshift import registry
from nightshift.contracts.drift import ColumnDrift, DriftReport
from nightshift.contracts.package import Window
from nightshift.contracts.release_record import Action, Entry, Release, ReleasedVersion
from nightshift.contracts.section import Fact, Page, Section, SectionOutcome, Text
from nightshift.contracts.tables import Partition, Table, partition_uri, write_table
from nightshift.contracts.verdict import Decision, Measure, Verdict
from nightshift.registry import approvals, release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift_testkit import fixtures
from pipelines import configs

NAME = "fraud"
DAYS = tuple(date(2026, 11, 22) + timedelta(days=number) for number in range(7))
LIVE, WAITING, REFUSED = 5, 6, 7  # versions
FAILED = {date(2026, 11, 24): "23 % of the rows are rejected, at most 5 % may be",
          date(2026, 11, 26): "the store refused the connection"}  # fmt: skip
DRIFTS = {"amount": date(2026, 11, 25), "terminal_count_7d": date(2026, 11, 27)}  # input -> since when
REASON = "average precision 0.61 lies below the champion's 0.72 by more than 0.02"
CUSTOMERS, EVENTS = 50, 400  # of a day
KEY = "abc"
CARD = "4711"  # the customer who has events on every day


@dataclass(frozen=True)
class WrittenNight:
    """A night of the week.

    Attributes:
        folder: the workspace.
        number: of its version, from 1.
    """

    folder: Path
    number: int

    @property
    def day(self) -> date:
        """Its logical date."""
        return DAYS[self.number - 1]

    @property
    def began(self) -> datetime:
        """When its runs started."""
        return datetime.combine(self.day + timedelta(days=1), time(2), UTC)

    @property
    def decision(self) -> Decision:
        """The evaluation's."""
        return Decision.FAIL if self.number == REFUSED else Decision.PASS

    @cached_property
    def drifted(self) -> list[str]:
        """The inputs that have drifted."""
        return [name for name, since in DRIFTS.items() if since <= self.day]

    def name(self, pipeline: str) -> str:
        """Return the id of one of its runs."""
        return f"{NAME}-{pipeline}-{self.day}-{self.began:%Y%m%dT%H%M%S}000000"

    def write(self) -> None:
        """Write its runs, its version and its day in the lake."""
        self._write_day()
        self._write_training()
        self._write_monitoring()
        self._write_scoring()
        uri = fixtures.save(self.folder / "models" / str(self.number), self.number / 10, str(self.day))
        tags = {"train_first": str(self.day - timedelta(days=28)), "train_last": str(self.day),
                "promise": "average_precision", "average_precision": str(self._score()), "candidate": "xgboost",
                "evaluation": self.decision, "parent_run": self.name("training")}  # fmt: skip
        registry.register(str(self.folder / "registry"), NAME, uri, tags, {"average_precision": self._score()})

    def _score(self) -> float:
        return 0.61 if self.number == REFUSED else round(0.66 + self.number / 100, 2)

    def _write_run(self, pipeline: str, steps: Mapping[str, Any], is_complete: bool = True) -> Path:
        run = self.folder / "runs" / self.name(pipeline)
        run.mkdir(parents=True)
        parameters = {"date": str(self.day), "config": configs.load(NAME)}
        record = {"pipeline": pipeline, "started": self.began.isoformat(), "parameters": parameters, "steps": steps}
        (run / "run.json").write_text(json.dumps(record | {"complete": is_complete}))
        summary = {"run": run.name, "config": {"name": NAME}, "model_version": self.number, "steps": steps}
        usd = sum(step["usd"] for step in steps.values())
        (run / "summary.json").write_text(json.dumps(summary | {"usd": usd}))
        return run

    def _write_training(self) -> None:
        seconds = {"ingestion": 61.0, "features": 214.0, "training": 1380.0 + 20 * self.number, "evaluation": 45.0}
        run = self._write_run("training", _price(seconds))
        self._write_manifests(run)
        interval = (self._score() - 0.03, self._score() + 0.03)
        measure = Measure(name="average_precision", value=self._score(), limit=0.3, interval=interval)
        reason = REASON if self.decision is Decision.FAIL else "It is at least as good as the champion."
        _write_verdict(run, "evaluation", self.decision, [reason], [measure])
        is_refused = self.decision is Decision.FAIL
        label, tone = ("refused", "bad") if is_refused else ("passed", "good")
        headline = f"Version {self.number} {'was refused' if is_refused else 'has passed its gates'}"
        _write_page(run, SectionOutcome(headline=headline, label=label, tone=tone, reasons=[reason]), "Model quality")

    def _write_monitoring(self) -> None:
        run = self._write_run("monitoring", _price({"drift": 38.0, "monitoring": 2.0}))
        columns = [_compare(name, name in self.drifted) for name in (*DRIFTS, "customer_count_7d")]
        share = len(self.drifted) / len(columns)
        window = Window(first=self.day, last=self.day, rows=EVENTS)
        decision = Decision.FAIL if self.drifted else Decision.PASS
        reason = f"{len(self.drifted)} of {len(columns)} inputs drifted ({share:.0%}); at most 10% may."
        measures = [Measure(name="inputs", value=share, limit=0.1, higher_is_better=False),
                    Measure(name="volume", value=0.02 * self.number, limit=0.5, higher_is_better=False)]  # fmt: skip
        _write_verdict(run, "drift", decision, [reason], measures)
        report = DriftReport(model_sha256="0" * 64, model_version=str(self.number), promised=None, window=window,
                             reference=window, drifted_share=share, columns=columns, signals=[])  # fmt: skip
        report.write(str(run / "drift" / "drift" / "drift.json"))
        label, tone = ("drifted", "bad") if self.drifted else ("", "good")
        _write_page(run, SectionOutcome(headline=reason, label=label, tone=tone, reasons=[reason]), "Drift")

    def _write_scoring(self) -> None:
        error = FAILED.get(self.day)
        steps = _price({"ingestion": 30.0, "scoring": 12.0})
        if error:
            steps = {"ingestion": steps["ingestion"] | {"state": "failed", "error": error}}
        self._write_run("scoring", steps, is_complete=error is None)

    def _write_manifests(self, run: Path) -> None:
        for table, step in (("events", "ingestion"), ("features", "features")):
            days = [Partition(str(day), self._uri(table, day), EVENTS, "0", _count()) for day in DAYS[: self.number]]
            write_table(str(run / step / table), Table(table, days))

    def _write_day(self) -> None:
        ids = [self.number * EVENTS + row for row in range(EVENTS)]
        midnight = datetime.combine(self.day, time())
        times = [midnight + timedelta(seconds=200 * row) for row in range(EVENTS)]
        customers = [int(CARD) + row % CUSTOMERS for row in range(EVENTS)]
        amounts = [5.0 + row * 37 % 200 for row in range(EVENTS)]
        known = {"event_id": ids, "event_time": times}
        terminals = [row % 11 for row in range(EVENTS)]
        self._write_table("events", known | {"customer": customers, "terminal": terminals, "amount": amounts})
        self._write_table("features", known | {"customer_count_7d": [row % 9 for row in range(EVENTS)]})
        scores = [row % 97 / 100 for row in range(EVENTS)]
        versions = [str(self.number - 1 or 1)] * EVENTS
        self._write_table("scores", known | {"score": scores, "flagged": [score > 0.9 for score in scores],
                                             "model_version": versions})  # fmt: skip

    def _write_table(self, table: str, columns: Mapping[str, Sequence[Any]]) -> None:
        uri = self._uri(table, self.day)
        Path(uri).parent.mkdir(parents=True)
        pq.write_table(pa.table(columns), uri)

    def _uri(self, table: str, day: date) -> str:
        return partition_uri(str(self.folder / "lake"), NAME, table, day, KEY)


def write_week(folder: Path) -> None:
    """Write the week into an empty folder."""
    nights = [WrittenNight(folder, number) for number in range(1, len(DAYS) + 1)]
    for night in nights:
        night.write()
    _write_release(folder, nights[:LIVE])


def _write_release(folder: Path, nights: Sequence[WrittenNight]) -> None:
    ref = ReleaseRef(str(folder / "registry"), NAME)
    known = {version.version: version.sha256 for version in registry.versions(ref.registry, NAME)}
    entries = [
        Entry(
            versions=[ReleasedVersion(version=night.number, sha256=known[night.number], trained_until=night.day)],
            action=Action.PROMOTED,
            since=night.began + timedelta(minutes=25),
            by="airflow",
            run=night.name("training"),
            reasons=["It is at least as good as the champion."],
        )
        for night in nights
    ]
    record = Release(use_case=NAME, history=entries[:-1], **dict(entries[-1]))
    record.write(ref.uri)
    release_record.mirror(ref, record)
    waiting = ReleasedVersion(version=WAITING, sha256=known[WAITING])
    reasons = ["It is at least as good as the champion."]
    approvals.note(ref, WAITING, approvals.describe(waiting, record.live.sha256, "", reasons))


def _price(seconds: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """Return steps that are done, at 3.60 dollars an hour."""
    return {step: {"state": "done", "seconds": took, "usd": took / 1000} for step, took in seconds.items()}


def _count() -> dict[str, Any]:
    return {"read": EVENTS, "quarantined": {}}


def _compare(name: str, drifted: bool) -> ColumnDrift:
    psi, distance = (0.31, 0.21) if drifted else (0.01, 0.02)
    return ColumnDrift(name=name, psi=psi, psi_limit=0.2, wasserstein=distance, wasserstein_limit=0.08, drifted=drifted,
                       reference_mean=50.0, current_mean=50.0)  # fmt: skip


def _write_verdict(run: Path, gate: str, decision: Decision, reasons: list[str], measures: list[Measure]) -> None:
    verdict = Verdict(gate=gate, decision=decision, reasons=reasons, measures=measures, subject="0" * 64)
    verdict.write(str(run / gate / gate / "verdict.json"))


def _write_page(run: Path, outcome: SectionOutcome, title: str) -> None:
    section = Section(title=title, weight=1, blocks=[Text(sentences=outcome.reasons)],
                      highlights=[Fact(label="Rows", value=EVENTS, format="count")])  # fmt: skip
    page = Page(use_case=NAME, run=run.name, headline=outcome, outcomes=[(title, outcome)], sections=[section])
    page.write(str(run / "page.json"))
