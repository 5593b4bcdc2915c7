"""What is given to a colleague: no secret, and no more than fits."""

import json
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.doctor import dump
from pipelines.doctor.redaction import REDACTED, Redactor

NOTHING_KNOWN = Redactor({})
# no part of it occurs in what is around it
SECRETS = st.text(string.ascii_letters + string.digits + "!#$%&*+-./:;<=>?@^_~ ", min_size=6, max_size=40).map(
    lambda text: f"Zq{text}qZ"
)
NAMES = st.sampled_from(
    [
        "password", "DB_PASSWORD", "pwd", "passphrase", "client_secret", "AWS_SECRET_ACCESS_KEY", "api-key", "apiKey",
        "NIGHTSHIFT_SERVING_TOKEN", "authorization", "private_key", "credentials", "connection_string", "Set-Cookie",
    ]
)  # fmt: skip
HARMLESS = ["tokenizer", "max_tokens", "key", "passed", "batch_size", "tokens_per_second", "run", "keys", "compass"]


def nest(value: object, path: list[str | int]) -> object:
    for part in reversed(path):
        value = {part: value} if isinstance(part, str) else [value]
    return value


@given(SECRETS, NAMES, st.lists(st.one_of(st.sampled_from(HARMLESS), st.just(0)), max_size=4))
def test_no_value_under_a_secret_name_is_kept_at_any_depth(secret: str, name: str, path: list[str | int]) -> None:
    for value in ({name: secret}, {name: [secret]}, {name: {"value": secret}}):
        assert secret not in json.dumps(NOTHING_KNOWN.clean_value(nest(value, path)))


@given(SECRETS, NAMES, st.sampled_from(["{}={}", "{}: {}", '"{}": "{}"', "  {} = '{}'", "--{}={}", "x {}={}\ny"]))
def test_no_value_assigned_to_a_secret_name_is_kept_in_a_line(secret: str, name: str, line: str) -> None:
    cleaned = NOTHING_KNOWN.clean_text(f"before\n{line.format(name, secret)}\nafter")

    assert secret not in cleaned
    assert cleaned.startswith("before\n") and cleaned.endswith("\nafter")


@given(SECRETS, NAMES)
def test_a_value_that_the_environment_has_under_a_secret_name_is_kept_nowhere(secret: str, name: str) -> None:
    redactor = Redactor({name: secret, "HOME": "/home/ann"})

    assert secret not in redactor.clean_text(f"connecting with {secret} from /home/ann")
    assert "/home/ann" in redactor.clean_text(f"connecting with {secret} from /home/ann")


@given(st.text(string.ascii_letters + string.digits + "!$%&*+-.:;=?@^_~", min_size=6))
def test_no_password_of_a_url_is_kept(secret: str) -> None:
    secret = f"Zq{secret}qZ"

    cleaned = NOTHING_KNOWN.clean_text(f"reading postgresql://shop:{secret}@db.example.com/shop")

    assert secret not in cleaned and cleaned.endswith("@db.example.com/shop")


@pytest.mark.parametrize(
    "secret",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl",
        "hf_abcdefghijklmnopqrst",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "ya29.a0AfH6SMBx-y_z",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIE cut off",
    ],
)
def test_what_looks_like_a_secret_is_not_kept(secret: str) -> None:
    assert NOTHING_KNOWN.clean_text(f"got {secret}") == f"got {REDACTED}"


def test_a_header_keeps_its_scheme_and_loses_its_token() -> None:
    assert NOTHING_KNOWN.clean_text("Bearer abc.def, then") == f"Bearer {REDACTED} then"


@pytest.mark.parametrize("name", HARMLESS)
def test_what_only_resembles_a_secret_name_is_kept(name: str) -> None:
    assert NOTHING_KNOWN.clean_value({name: "value"}) == {name: "value"}
    assert NOTHING_KNOWN.clean_text(f"{name}=value") == f"{name}=value"


def test_of_a_large_log_the_end_is_kept_from_the_beginning_of_a_line(tmp_path: Path) -> None:
    lines = "".join(f"line {number}\n" for number in range(200_000))
    (tmp_path / "log.txt").write_text(lines)
    contents = dump.Dump(NOTHING_KNOWN, 10**7)

    contents.add_file("log.txt", tmp_path / "log.txt")

    kept = contents.members["log.txt"].decode()
    assert len(kept) <= dump.MAX_FILE_BYTES
    assert kept.startswith("line ") and kept.endswith("line 199999\n") and lines.endswith(kept)


def test_a_json_file_that_is_damaged_is_kept_as_text_without_its_secrets(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"password": "geheim", "run": ')
    contents = dump.Dump(NOTHING_KNOWN, 10**7)

    contents.add_file("run.json", tmp_path / "run.json")

    assert contents.members["run.json"].decode().startswith('{"password": [redacted]')
    assert b"geheim" not in contents.members["run.json"]
