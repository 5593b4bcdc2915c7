"""What a person sees of `nightshift erase`, and its exit codes."""

import json
from pathlib import Path

import pytest
import yaml

from nightshift import storage
from nightshift.runtime.errors import UserError
from pipelines.cli.__main__ import parse_command_line

from .nights import CONFIG, Nights, rows

CLIENTS = ["ada-0001", "bob-0002"]


def erase(folder: Path, *flags: str) -> int:
    (folder / "tiny.yaml").write_text(yaml.safe_dump(CONFIG))
    args = parse_command_line(["erase", "--workspace", str(folder), "--config", str(folder / "tiny.yaml"), *flags])
    return int(args.command(args))


@pytest.fixture
def ingested(tmp_path: Path) -> Path:
    nights = Nights(tmp_path)
    nights.deliver(rows(CLIENTS))
    nights.night(until="events")
    return tmp_path


def test_the_record_says_who_when_and_why_and_names_nobody(ingested: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert erase(ingested, "--customer", "ada-0001", "--reason", "request 7", "--json") == 0

    printed = json.loads(capsys.readouterr().out)
    (file,) = (ingested / "audit" / "erasures").iterdir()
    assert json.loads(file.read_text()) == printed and file.stem == printed["decision"]
    assert printed["reason"] == "request 7" and printed["by"] and printed["erased_at"]
    assert printed["proof"]["hits"] == {} and printed["proof"]["files"] > 20
    assert "ada" not in file.read_text() + (ingested / "lake" / "tiny" / "erasures.json").read_text()
    assert {kept["what"] for kept in printed["kept"]} == {"reports", "source"}


def test_a_column_is_named_as_the_user_or_as_the_config_has_it(
    ingested: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for column in ("client", "customer"):
        assert erase(ingested, "--entity", f"{column}=bob-0002", "--dry-run") == 0
        assert "would be erased" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--entity", "clent=1", "--dry-run"], r"did you mean 'client'"),
        (["--customer", " ", "--dry-run"], "the id is ' '"),
        (["--customer", "ada-0001"], "--reason is missing"),
        (["--customer", "ada-0001", "--reason", "ada-0001 has asked"], "--reason names the id"),
    ],
)
def test_a_request_that_cannot_be_carried_out_is_refused(tmp_path: Path, flags: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        erase(tmp_path, *flags)
    assert not (tmp_path / "lake").exists()


def test_an_id_that_cannot_be_taken_out_is_named_and_the_command_ends_with_1(
    ingested: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stray = ingested / "runs" / "tiny-training-1" / "trace.bin"
    stray.write_bytes(b"\xff\xfe ada-0001 \xff")

    assert erase(ingested, "--customer", "ada-0001", "--reason", "request 7") == 1
    assert f"still there: 1 in {stray}" in capsys.readouterr().out
    assert not storage.read_json(str(ingested / "lake" / "tiny" / "erasures.json"))["erased"][0]["complete"]

    stray.unlink()
    assert erase(ingested, "--customer", "ada-0001", "--reason", "request 7") == 0
