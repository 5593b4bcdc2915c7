"""A real broker, whose messages are the events of the Parquet files."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, date, datetime

import pandas as pd
import pytest

from components.ingestion import sources
from components.ingestion.sources.kafka import MALFORMED, OFFSET, PROPERTIES, SCHEME, LandedTopic, Topic, login
from nightshift import storage
from nightshift.config import parse
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift_testkit import kafka
from nightshift_testkit.processes import started, wait_until
from nightshift_testkit.servers import free_port

from .conftest import CONFIG, DATE

pytestmark = pytest.mark.slow  # the broker is a process

DAY = date.fromisoformat(DATE)
EVENTS = {"event_id": "id", "event_time": "time", "label": "label"}
CONFIG_OF_EVENTS = CONFIG | {"columns": EVENTS}


@pytest.fixture(scope="module")
def broker():
    with kafka.serve() as running:
        yield running


@pytest.fixture
def topic(broker, request):
    """A topic of two partitions of one's own."""
    name = "".join(letter for letter in request.node.name if letter.isalnum())[-100:]
    broker.create(name, 2)
    return name


def connect(broker, topic, tmp_path, **source):
    config = CONFIG_OF_EVENTS | {"source": {"topic": topic} | source}
    return sources.connect(broker.uri, parse(config), DAY, landing=str(tmp_path / "landing"))


def event(number, time=f"{DATE}T12:00:00", **more):
    return json.dumps({"id": number, "time": time, "label": 1} | more).encode()


def messages(frame):
    """A row a message, as programs write them."""
    for row in frame.to_dict("records"):
        present = {name: None if pd.isna(value) else value for name, value in row.items()}
        yield json.dumps(present, default=str).encode()


def ids(source, day=DAY):
    return source.read(day).load()["id"].dropna().tolist()


def test_the_events_are_those_of_the_parquet_files(step, config, folder, broker, topic, clean_events):
    for number, file in enumerate(sorted(folder.glob("*.parquet"))):
        broker.send(topic, messages(pd.read_parquet(file)), partition=number % 2)
    config["source"] = {"topic": topic}
    table = step.ingest(config, broker.uri)
    assert table.sha256 == clean_events.sha256
    assert sum(table.details["offsets"].values()) == clean_events.details["read"]


def test_new_and_late_messages_make_their_days_anew_and_no_others(step, config, folder, broker, topic, days):
    frames = [pd.read_parquet(file) for file in sorted(folder.glob("*.parquet"))]
    for frame in frames:
        broker.send(topic, messages(frame))
    config["source"] = {"topic": topic}
    before = step.ingest(config, broker.uri)
    broker.send(topic, messages(frames[2].head(1).assign(transaction_id=10**9)), partition=1)
    after = step.ingest(config, broker.uri)
    pairs = zip(before.partitions, after.partitions, strict=True)
    assert [(new.date, new.rows - old.rows) for old, new in pairs if old.uri != new.uri] == [(str(days[2]), 1)]
    assert step.ingest(config, broker.uri).details["offsets"] == after.details["offsets"] == {
        "0": before.details["read"], "1": 1
    }  # fmt: skip


def land(uri, topic, folder, messages):
    """Land a topic with at most so many messages a round."""
    config = parse(CONFIG_OF_EVENTS | {"source": {"topic": topic}})
    return LandedTopic(Topic(uri.removeprefix(SCHEME), topic, messages), config, f"{folder}/landing")


def landing(broker, topic, tmp_path, messages):
    """The command that does the same in a process of its own."""
    code = f"from {__name__} import land; land({broker.uri!r}, {topic!r}, {str(tmp_path)!r}, {messages})"
    return [sys.executable, "-c", code]


def test_a_message_is_landed_once_however_many_rounds_it_takes(broker, topic, tmp_path):
    for partition in range(2):
        broker.send(topic, map(event, range(partition, 100, 2)), partition)
    assert sorted(ids(land(broker.uri, topic, tmp_path, 10))) == list(range(100))
    broker.send(topic, map(event, range(100, 120)))
    assert sorted(ids(land(broker.uri, topic, tmp_path, 10))) == list(range(120))


def test_what_a_killed_landing_has_left_is_neither_lost_nor_read_twice(broker, topic, tmp_path):
    broker.send(topic, map(event, range(3000)))
    with started(landing(broker, topic, tmp_path, messages=100)) as killed:
        wait_until(lambda: list(tmp_path.rglob("0-*.parquet")), "some messages are landed", pause=0.001)
        killed.send_signal(signal.SIGKILL)
    broker.send(topic, map(event, range(3000, 3100)))
    assert sorted(ids(connect(broker, topic, tmp_path))) == list(range(3100))


def test_a_file_of_a_round_that_never_ended_is_not_read(broker, topic, tmp_path):
    broker.send(topic, map(event, range(4)))
    connect(broker, topic, tmp_path)
    (file,) = tmp_path.rglob("0-0-4.parquet")
    file.with_name("0-4-9.parquet").write_bytes(file.read_bytes())
    assert ids(connect(broker, topic, tmp_path)) == [0, 1, 2, 3]


def test_two_runs_that_land_at_once_land_each_message_once(broker, topic, tmp_path):
    broker.send(topic, map(event, range(2000)))
    command = landing(broker, topic, tmp_path, messages=100)
    runs = [subprocess.Popen(command) for _ in range(2)]
    assert [run.wait() for run in runs] == [0, 0]
    assert sorted(ids(connect(broker, topic, tmp_path))) == list(range(2000))


class OvertakenTopic(Topic):
    """A topic that another run lands while this one has read its first round, and that is killed before its second."""

    def read(self, offsets):
        if offsets:
            raise InterruptedError
        rounds = super().read(offsets)
        self.overtake()
        return rounds


def test_a_run_that_is_overtaken_does_not_take_back_what_the_other_has_landed(broker, topic, tmp_path):
    broker.send(topic, map(event, range(100)))
    overtaken = OvertakenTopic(broker.address, topic, messages=50)
    overtaken.overtake = lambda: land(broker.uri, topic, tmp_path, 30)
    with pytest.raises(InterruptedError):
        LandedTopic(overtaken, parse(CONFIG_OF_EVENTS | {"source": {"topic": topic}}), f"{tmp_path}/landing")
    (offsets,) = tmp_path.rglob("offsets.json")
    assert json.loads(offsets.read_text())["0"][-1][1] == 100


def test_messages_that_are_no_objects_are_quarantined_on_the_day_they_were_sent(step, broker, topic):
    bad = [b"{", None, b"[1]", b'{"id": NaN}', b'{"id": "\\ud800"}', b'{"id": "\xed\xa0\x80"}']
    broker.send(topic, bad, sent=datetime(2024, 3, 10, 23, 59, tzinfo=UTC))
    broker.send(topic, map(event, range(1, 200)))
    source = {"topic": topic, "empty_days": "allowed"}
    config = CONFIG_OF_EVENTS | {"source": source, "quarantine": {"max_share": 0.5}}
    part = step.ingest(config, broker.uri).partitions[-1]
    assert (part.rows, part.details["quarantined"]) == (199, {"missing_key": 6})
    quarantine = storage.read_frame(part.details["quarantine_uri"])
    assert quarantine[OFFSET].tolist() == [f"0/{offset}" for offset in range(6)]
    texts = ["{", "", "[1]", '{"id": NaN}', '{"id": "\\ud800"}', '{"id": "\\xed\\xa0\\x80"}']
    assert quarantine[MALFORMED].fillna("").tolist() == texts


def test_a_value_that_is_a_list_or_an_object_is_read_as_its_text(step, broker, topic):
    nested = [event([1]), event(1, time={"at": DATE}), event(2, label=[1])]
    broker.send(topic, [*nested, *(event(n, label=n % 2) for n in range(10, 200))])
    config = CONFIG_OF_EVENTS | {"source": {"topic": topic, "empty_days": "allowed"}}
    part = step.ingest(config, broker.uri).partitions[-1]
    assert part.details["quarantined"] == {"unknown_label": 1}
    assert part.rows == 191, "one is of the day on which it was sent"
    assert storage.read_frame(part.uri)["event_id"].tolist()[-1] == "[1]"


def test_integers_stay_exact_beside_numbers_that_are_not(broker, topic, tmp_path):
    large = 2**60 + 1
    broker.send(topic, [event(large), event(1.5), event("007"), event(None), b'{"time": "2024-03-10"}'])
    assert ids(connect(broker, topic, tmp_path)) == [large, 1.5, "007"]


def test_days_are_of_the_event_time_in_the_configs_zone_and_spelling(broker, topic, tmp_path):
    broker.send(topic, [event(1, "10.03.2024 00:30"), event(2, "10.03.2024 01:30")])
    spelled = {"timezone": "Europe/Berlin", "format": {"times": ["%d.%m.%Y %H:%M"]}}
    source = connect(broker, topic, tmp_path, **spelled)
    assert (ids(source, date(2024, 3, 9)), ids(source)) == ([1], [2])
    assert not connect(broker, topic, tmp_path).has(DAY), "by other rules they are no times"


def test_a_missing_topic_is_refused_with_those_there_are(broker, topic, tmp_path):
    with pytest.raises(UserError, match=rf"source.topic is 'nothere', .* has no such topic; it has .*{topic}"):
        connect(broker, "nothere", tmp_path)


def test_brokers_that_are_down_may_answer_later():
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(UnavailableError, match=rf"^kafka://{address}, topic 'events': .*run the same command again"):
        Topic(address, "events", patience=0.5)


def test_the_login_is_in_the_environment_and_never_shown():
    text = "security.protocol = SASL_SSL\n\nsasl.password=a=b"
    assert login({PROPERTIES: text}) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}
    with pytest.raises(UserError, match=r"NIGHTSHIFT_KAFKA, line 2: takes name=value") as error:
        login({PROPERTIES: "security.protocol=SSL\nsecret"})
    assert "secret" not in str(error.value)


def test_a_property_that_the_client_does_not_know_is_named(step, config, broker, topic):
    config["source"] = {"topic": topic}
    done = step.run(config, broker.uri, **os.environ | {PROPERTIES: "sasl.pasword=hidden"})
    assert done.returncode == 2
    assert 'No such configuration property: "sasl.pasword"' in done.stderr
    assert "hidden" not in done.stderr
