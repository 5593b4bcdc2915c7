"""Addresses of replicas, and what they report."""

import pytest

from nightshift.runtime.errors import UserError
from nightshift_llm.gateway.fleet import Address, ReportedLoad, parse_address, parse_addresses, parse_load
from nightshift_llm.gateway.followed import FollowedFile

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:num_requests_waiting_by_reason{engine="0"} 9.0
"""
LLAMA = "llamacpp:requests_processing 1\nllamacpp:requests_deferred 4\nllamacpp:prompt_tokens_total 99\n"


def test_a_load_is_read_from_the_metrics_of_the_engines() -> None:
    assert [parse_load(page) for page in (VLLM, LLAMA, "")] == [
        ReportedLoad(3, 2, 0.25),
        ReportedLoad(1, 4, 0.0),
        ReportedLoad(0, 0, 0.0),
    ]


def test_an_address_may_name_a_version() -> None:
    assert parse_address("replica", "http://[::1]:80/") == Address("http://[::1]:80")
    assert parse_address("replica", "7=https://engine.example") == Address("https://engine.example", "7")
    assert parse_addresses("file", b"# canary\n7=http://a:1\n\nhttp://b:2\n") == [
        Address("http://a:1", "7"),
        Address("http://b:2"),
    ]


def test_a_file_that_becomes_wrong_or_empty_changes_nothing(tmp_path) -> None:
    file = tmp_path / "replicas"
    file.write_text("http://a:1")
    followed = FollowedFile("replicas", str(file), parse_addresses, check_seconds=0)
    for content in ("http://[::1:80", "", "# none\n"):
        file.write_text(content)
        assert followed.read() == [Address("http://a:1")]
    file.write_text("http://b:1")
    assert followed.read() == [Address("http://b:1")]


def test_no_error_of_a_parser_ends_the_following_of_a_file(tmp_path) -> None:
    file = tmp_path / "number"
    file.write_text("1")
    followed = FollowedFile("number", str(file), lambda _, content: 10 // int(content), check_seconds=0)
    for content, number in (("x", 10), ("0", 10), ("2", 5)):
        file.write_text(content)
        assert followed.read() == number


@pytest.mark.parametrize(
    "text",
    ["", "localhost:80", "ftp://a:1", "http://a:x", "http://a:1/v1", "http://:1", "http://[::1:80", "http://a:0"],
)
def test_what_is_no_address_is_refused(text) -> None:
    with pytest.raises(UserError, match=r"replica is '.*'; give \[VERSION=\]http://HOST:PORT or https://HOST"):
        parse_address("replica", text)
