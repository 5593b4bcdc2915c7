"""A Kafka topic of JSON objects as a source: its new messages are landed in the lake by day, and days are read there.

A round takes messages of each partition from where the last round ended, and writes a file for each day and partition,
named after the round's range of offsets. Then the list of ranges is replaced by compare-and-set. A file counts only if
its range is in the list, so what a killed or slower round has left is never read, and each message is landed once.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from components.ingestion.sources.protocol import RawRows
from nightshift import storage
from nightshift.config import Config
from nightshift.runtime.errors import UnavailableError, UserError, require_extra
from nightshift.runtime.step import log
from nightshift.storage import conditional

if TYPE_CHECKING:
    import pandas as pd
    from confluent_kafka import Message

SCHEME = "kafka://"
PROPERTIES = "NIGHTSHIFT_KAFKA"  # variable with a name=value a line, for the login
ROUND = 100_000  # messages in memory
PATIENCE = 30.0  # seconds without a message or the end of a partition
OFFSET, MALFORMED = "kafka.offset", "kafka.message"  # columns that only the quarantine keeps

Ranges = dict[str, list[list[int]]]  # partition -> ranges of offsets landed, each from its first to before its last


@dataclass
class Round:
    """Messages of one partition.

    Attributes:
        first: offset at which the round begins.
        messages: those that are there, in order of offsets.
        end: offset at which the next round begins.
    """

    first: int
    messages: "list[Message]" = field(default_factory=list)
    end: int = 0


class LandedTopic:
    """The messages of a topic, up to its end when the source was opened, by the UTC day of their event time."""

    has_fixed_dtypes: ClassVar = False

    def __init__(self, topic: "Topic", config: Config, landing: str) -> None:
        self._topic, self._config = topic, config
        dated_by = [config.columns.event_time, config.source.timezone, config.source.format.times]
        self._key = storage.fingerprint([topic.cluster, topic.name, dated_by])[:16]
        self._folder = storage.join(landing, topic.name, self._key)
        self._ranges = self._land()
        topic.close()

    def name(self, day: date) -> str:
        """Return the topic, and the day in it."""
        return f"topic {self._topic.name!r}, {day}"

    def absence(self, day: date) -> str:
        """Return that the topic has no messages of a day, for a message."""
        return f"topic {self._topic.name!r} has no message of {day}"

    @property
    def details(self) -> Mapping[str, Any]:
        """The offset after the last message that is read, by partition."""
        return {"offsets": _ends(self._ranges)}

    def has(self, day: date) -> bool:
        """Return whether there are messages of a day, or the day may lack them."""
        return bool(self._names(day)) or self._config.source.may_be_empty(day)

    def read(self, day: date) -> RawRows:
        """Return a day's messages as rows, identified by the files that hold them."""
        names = self._names(day)
        return RawRows(storage.fingerprint([self._key, str(day), names]), partial(self._load, day, names))

    def _names(self, day: date) -> list[str]:
        """Return the names of a day's files, in order of partitions and offsets."""
        landed = {_file_name(number, *limits): (int(number), *limits) for number, limits in _limits(self._ranges)}
        names = [name for name in storage.names(storage.join(self._folder, str(day))) if name in landed]
        return sorted(names, key=landed.__getitem__)

    def _load(self, day: date, names: Iterable[str]) -> "pd.DataFrame":
        import pandas as pd

        files = [storage.read_frame(storage.join(self._folder, str(day), name)) for name in names]
        records = [
            _parse(value) | {OFFSET: f"{partition}/{offset}"}
            for file in files
            for partition, offset, value in file.itertuples(index=False)
        ]
        # objects keep integers apart from floats, whatever other messages have
        return pd.DataFrame(records, columns=None if records else self._config.columns.names, dtype=object)

    def _land(self) -> Ranges:
        """Land what is new, round by round; return all ranges that are landed."""
        uri = storage.join(self._folder, "offsets.json")
        content, version = conditional.read(uri)
        ranges: Ranges = json.loads(content) if content else {}
        while rounds := self._topic.read(_ends(ranges)):
            for number, one in rounds.items():
                self._write(number, one)
            landed = {number: [*ranges.get(number, []), [one.first, one.end]] for number, one in rounds.items()}
            # where two runs land the same messages, only one gets them into the list
            conditional.compare_and_set(uri, version, json.dumps(ranges | landed, sort_keys=True).encode())
            content, version = conditional.read(uri)
            ranges = json.loads(content or "{}")
            log.info("ingestion: topic %s is landed up to %s", self._topic.name, _ends(ranges))
        return ranges

    def _write(self, number: str, landed: Round) -> None:
        import pandas as pd

        rows = [(int(number), message.offset(), message.value()) for message in landed.messages]
        frame = pd.DataFrame(rows, columns=["partition", "offset", "value"])
        for day, part in frame.groupby(pd.Series(self._days(landed.messages), dtype=object)):
            file = storage.join(self._folder, str(day), _file_name(number, landed.first, landed.end))
            storage.write_frame(file, part)

    def _days(self, messages: "list[Message]") -> "list[date]":
        """Return the UTC day of each message's event time, or of its own timestamp where it has none to be read."""
        import pandas as pd

        from nightshift.tasks import spelling

        column = self._config.columns.event_time
        values = pd.Series([_parse(message.value()).get(column) for message in messages], dtype=object)
        times = spelling.times(values, self._config.source)
        sent = [datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC) for message in messages]
        return [(other if pd.isna(moment) else moment).date() for moment, other in zip(times, sent, strict=True)]


class Topic:
    """A topic, read from given offsets to where it ends.

    Attributes:
        name: its name.
        cluster: identifier of the cluster that has it.
    """

    def __init__(self, brokers: str, name: str, messages: int = ROUND, patience: float = PATIENCE) -> None:
        with require_extra("source.topic", "kafka"):
            from confluent_kafka import Consumer

        own = {"bootstrap.servers": brokers, "group.id": "nightshift", "enable.auto.commit": False}
        reading = {"enable.partition.eof": True, "auto.offset.reset": "error", "fetch.wait.max.ms": 50, "log_level": 0}
        self.name, self._brokers, self._messages, self._patience = name, brokers, messages, patience
        with self._explain():
            self._consumer: Consumer = Consumer(own | reading | login())
            metadata = self._consumer.list_topics(timeout=patience)
            self.cluster = metadata.cluster_id
        if name not in metadata.topics:
            names = ", ".join(sorted(metadata.topics)[:10]) or "none"
            raise UserError(f"source.topic is {name!r}, and {SCHEME}{brokers} has no such topic; it has {names}")
        with self._explain():
            self._oldest = {number: self._find_oldest(number) for number in metadata.topics[name].partitions}
        self._positions = dict[int, int]()
        self._ended = set[int]()

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()

    def read(self, offsets: Mapping[str, int]) -> dict[str, Round]:
        """Return the next messages of each partition that has some, all in all about as many as a round takes.

        Args:
            offsets: partition -> offset to begin at; those without one begin with the oldest message.

        Raises:
            UserError: when the brokers refuse, or have no such offset.
            UnavailableError: when they do not answer.
        """
        rounds = {number: Round(self._find_start(number, offsets)) for number in self._oldest}
        with self._explain():
            self._seek({number: landed.first for number, landed in rounds.items()})
            for message in self._consume():
                rounds[message.partition() or 0].messages.append(message)
        for number, landed in rounds.items():
            landed.end = self._positions[number]
        return {str(number): landed for number, landed in rounds.items() if landed.end > landed.first}

    def _find_oldest(self, number: int) -> int:
        from confluent_kafka import TopicPartition

        oldest, _ = self._consumer.get_watermark_offsets(TopicPartition(self.name, number), timeout=self._patience)
        return int(oldest)

    def _find_start(self, number: int, offsets: Mapping[str, int]) -> int:
        oldest = self._oldest[number]
        start = offsets.get(str(number), oldest)
        if start < oldest:
            log.warning(
                "ingestion: partition %d of topic %s: offsets %d to %d were deleted before they were landed; "
                "run more often, or let the topic keep its messages longer",
                *(number, self.name, start, oldest - 1),
            )
        return max(start, oldest)

    def _seek(self, positions: dict[int, int]) -> None:
        """Go to offsets, unless the last round has ended there: to go anywhere discards what is fetched already."""
        from confluent_kafka import TopicPartition

        if positions != self._positions:
            self._consumer.assign([TopicPartition(self.name, *position) for position in positions.items()])
            self._positions, self._ended = positions, set()

    def _consume(self) -> "Iterator[Message]":
        """Yield messages until all partitions have ended or the round is full."""
        from confluent_kafka import KafkaError, KafkaException

        count, heard = 0, time.monotonic()
        while len(self._ended) < len(self._oldest) and count < self._messages:
            events = self._consumer.consume(self._messages - count, timeout=0.1)
            heard = time.monotonic() if events else heard
            if time.monotonic() - heard > self._patience:
                raise UnavailableError(f"{SCHEME}{self._brokers} does not answer; run the same command again")
            for event in events:
                number, offset, error = event.partition() or 0, event.offset() or 0, event.error()
                if error is None:
                    count, self._positions[number] = count + 1, offset + 1
                    yield event
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 the library's name for it
                    self._positions[number] = offset
                    self._ended.add(number)
                else:
                    raise KafkaException(error)

    @contextmanager
    def _explain(self) -> Iterator[None]:
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as exception:
            error = exception.args[0]
            message = f"{SCHEME}{self._brokers}, topic {self.name!r}: {error.str()}"
            if error.retriable() or error.name() in ("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN"):
                raise UnavailableError(f"{message}; check the brokers, then run the same command again") from None
            raise UserError(f"{message}; check source.topic, --data and the login in {PROPERTIES}") from None


def login(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the properties of the client that `NIGHTSHIFT_KAFKA` holds, a name=value a line.

    Raises:
        UserError: when a line is something else; it does not show the line, which may hold a password.
    """
    lines = [line for line in variables.get(PROPERTIES, "").splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        if "=" not in line:
            raise UserError(f"{PROPERTIES}, line {number}: takes name=value, such as security.protocol=SASL_SSL")
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}


def _parse(value: bytes | None) -> dict[str, Any]:
    """Return a message's JSON object; of another message its text, under a name that no column has."""
    try:
        text = (value or b"").decode()
        record = json.loads(text, parse_constant=_refuse_constant)
        if "\\u" in text:  # half a pair of surrogates is no text
            json.dumps(record, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        record = None
    return record if isinstance(record, dict) else {MALFORMED: (value or b"").decode(errors="backslashreplace")}


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _limits(ranges: Ranges) -> Iterator[tuple[str, list[int]]]:
    for number, landed in ranges.items():
        yield from ((number, limits) for limits in landed)


def _ends(ranges: Ranges) -> dict[str, int]:
    return {number: landed[-1][1] for number, landed in ranges.items()}


def _file_name(number: str, first: int, end: int) -> str:
    return f"{number}-{first}-{end}.parquet"
