"""The client against servers that answer late, wrongly or not at all."""

from components.loadtest.client import OPEN_CONNECTIONS, Client, encode
from nightshift.stats import latency
from tests.components.loadtest.servers import answering

REQUESTS = [encode(b'{"instances": [{"amount": 1.0}]}')]


def test_an_open_loop_counts_the_time_that_requests_wait_for_a_slow_server() -> None:
    """One request at a time, 10 ms each, is half of what is offered: the last ones wait for half of the time."""
    due = latency.poisson_schedule(200, 0.5)
    with answering(lambda _: (200, 0.01), at_once=1) as port:
        opened = Client(port, REQUESTS).run_open(due, 200)
        closed = Client(port, REQUESTS).run_closed(1, 0.2)
    assert len(opened.latencies) == len(due)
    assert max(opened.latencies) >= 0.01 * len(due) - 0.5  # all of it served, one after the other
    # a client that waits for its answer sees nothing of this
    assert latency.quantile(sorted(closed.latencies), 0.5) < max(opened.latencies) / 2


def test_a_stall_is_seen_by_every_request_that_was_due_meanwhile() -> None:
    """More of them than there are connections: a latency that began when a request is sent would leave the rest out."""
    due = [0.002 * number for number in range(250)]
    with answering(lambda number: (200, 0.5 if number == 0 else 0.0), at_once=1) as port:
        trial = Client(port, REQUESTS).run_open(due, 500)
    assert len(trial.latencies) == len(due) > 3 * OPEN_CONNECTIONS
    # the one due after t seconds waited for the rest of the half second
    assert all(waited >= 0.49 - late for waited, late in zip(sorted(trial.latencies), reversed(due), strict=True))


def test_a_closed_loop_has_as_many_requests_on_their_way_as_connections() -> None:
    with answering(lambda _: (200, 0.1)) as port:
        trial = Client(port, REQUESTS).run_closed(4, 0.25)
    assert trial.offered is None
    assert 4 <= len(trial.latencies) <= 12
    assert min(trial.latencies) >= 0.1


def test_errors_are_counted_by_what_they_are_and_are_no_latencies() -> None:
    replies = {0: (503, 0.0), 1: (0, 0.0)}  # told to come again; hung up on
    with answering(lambda number: replies.get(number, (200, 0.0))) as port:
        trial = Client(port, REQUESTS).run_open([0.1 * number for number in range(5)], 10)
    assert trial.errors == {"503": 1, "connection": 1}
    assert len(trial.latencies) == 3


def test_what_is_never_answered_is_an_error() -> None:
    with answering(lambda number: (200, 2.0 if number else 0.0)) as port:
        trial = Client(port, REQUESTS, patience=0.3).run_open([0.0, 0.05, 0.1], 10)
    assert (len(trial.latencies), trial.errors) == (1, {"unanswered": 2})
