from pathlib import Path

import pytest

from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift_llm.contracts.streams import StreamLoadTest
from nightshift_llm.loadtest import body, parser
from nightshift_testkit.engines.stream_servers import Write, stream, streaming
from packages.llm.tests.test_streams import refuse, vanish


def start(*words: str) -> None:
    body(StepContext(parser().parse_args(list(words))))


async def answer(write: Write, number: int) -> None:
    await stream(write, 3, first=0.01, later=0.01)


def test_a_report_has_a_point_for_each_rate(tmp_path: Path) -> None:
    report = str(tmp_path / "report.json")
    with streaming(answer) as url:
        words = ["--model", "m", "--rates", "20,40", "--seconds", "1", "--output", report]
        start("--url", url, *words, "--first-token-ms", "3600000", "--per-token-ms", "3600000")
    written = StreamLoadTest.read(report)
    assert [point.offered for point in written.points] == [20, 40]
    for point in written.points:
        assert point.completed == point.sent > 0
        assert point.goodput == pytest.approx(point.completed / point.seconds)
        assert point.first_token_ms.p50 >= 10
        assert point.output_tokens == 3 * point.completed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--url", "localhost:80", "--rates", "1"], "url is 'localhost:80'; give one such as http://127.0.0.1:8080"),
        (["--url", "http://h", "--rates", "1,0"], "rates is '1,0'; give numbers above 0, such as 0.5,2"),
        (["--url", "http://h", "--rates", "1,"], "rates is '1,'; give numbers above 0, such as 0.5,2"),
        (["--url", "http://h", "--rates", "1", "--seconds", "0"], "seconds is '0'; give a number from 1 to 86400"),
        (["--url", "http://h", "--rates", "1", "--outputs", "few"], "outputs is 'few'; allowed are N, uniform:"),
    ],
)
def test_a_wrong_flag_is_refused_with_what_is_allowed(words: list[str], message: str) -> None:
    with pytest.raises(UserError) as error:
        start(*words)
    assert str(error.value).startswith(message)


def test_a_server_that_refuses_the_model_is_the_users_to_fix() -> None:
    async def not_found(write: Write, number: int) -> None:
        await write("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}")

    with streaming(not_found) as url, pytest.raises(UserError, match="ended with 404; check --model"):
        start("--url", url, "--model", "none", "--rates", "1")


def test_a_server_that_is_down_or_busy_is_worth_another_try() -> None:
    with streaming(vanish) as url:
        pass
    with pytest.raises(UnavailableError, match=r"does not answer .*start the server"):
        start("--url", url, "--rates", "1")
    with streaming(refuse) as url, pytest.raises(UnavailableError, match="ended with 429"):
        start("--url", url, "--model", "m", "--rates", "1")
