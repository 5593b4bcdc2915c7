"""The commands of docs/runbooks/audit.md: those that are not marked as not run here are run on made-up records."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
import yaml

from infra.terraform import INFRA
from nightshift.contracts.access_log import OpenedFile
from nightshift.registry import access_log
from pipelines.cli.__main__ import parse_command_line
from tests.pipelines.erasure.test_items import AUTHORS, CONFIG, DAYS, night

TEXT = (INFRA.parent / "docs" / "runbooks" / "audit.md").read_text()
PATIENT, PSEUDONYM = AUTHORS[0], "abcdefghijklmnop"
READER = "arn:aws:iam::000000000000:user/anna"
RECORD = "eventtime VARCHAR, eventname VARCHAR, eventsource VARCHAR, useridentity STRUCT(arn VARCHAR), "
RECORD += "requestparameters VARCHAR, errorcode VARCHAR, day VARCHAR"


def statement(name: str) -> str:
    """A statement of the page, after its mark."""
    (text,) = re.findall(rf"<!-- {name} -->\n```sql\n(.*?)```", TEXT, re.DOTALL)
    return str(text)


def answer(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """What a line of the page prints of a small use case, with one of its ids in the place of P."""
    (line,) = re.findall(rf"^nightshift ({command} .*--json)$", TEXT, re.MULTILINE)
    (folder / "mails.yaml").write_text(yaml.safe_dump(CONFIG))
    words = [re.sub(r"^P$|(?<==)P$", PATIENT, word) for word in shlex.split(line)]
    words[words.index("--config") + 1] = str(folder / "mails.yaml")
    args = parse_command_line([*words, "--workspace", str(folder)])
    args.command(args)
    return json.loads(capsys.readouterr().out)


def read(
    key: str, who: str = READER, name: str = "GetObject", day: str = "2026/11/25", error: str | None = None
) -> tuple[Any, ...]:
    """A record of CloudTrail."""
    time = f"{day.replace('/', '-')}T08:00:00Z"
    parameters = json.dumps({"bucketName": "lake", "key": key})
    return time, name, "s3.amazonaws.com", {"arn": who}, parameters, error, day


def lay_out_run(folder: Path) -> None:
    """A night whose record and events are where those of a real one are."""
    night(folder, AUTHORS)
    run = folder / "runs" / "mails-training-1"
    record = json.loads((run / "run.json").read_text()) | {"parameters": {"config": CONFIG}}
    (run / "run.json").write_text(json.dumps(record))
    (run / "ingestion").mkdir()
    shutil.copytree(run / "events", run / "ingestion", dirs_exist_ok=True)


@pytest.mark.slow
def test_the_days_of_a_patient_and_what_holds_them_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lay_out_run(tmp_path)

    events = answer("events", tmp_path, capsys)
    reach = answer("erase", tmp_path, capsys)

    assert {event["day"] for event in events["events"]} == {str(day) for day in DAYS}
    assert (events["column"], events["missing"], events["left_out"]) == ("group", [], 0)
    assert {"events", "features"} <= {store["store"] for store in reach["stores"]} and reach["decision"] is None
    assert not (tmp_path / "audit").exists()


def test_who_opened_a_patients_files_is_on_the_access_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [OpenedFile(subject=name, sha256="0" * 64) for name in (PATIENT, AUTHORS[1])]
    access_log.log_opened(str(tmp_path / "audit"), "scans", "ingestion of 2026-11-20", files)
    (line,) = re.findall(r"^nightshift (image-text seen P .*)$", TEXT, re.MULTILINE)
    words = [PSEUDONYM if word == "P" else word for word in shlex.split(line)]
    access_log.log_opened(
        str(tmp_path / "audit"), "scans", "ingestion of 2026-11-21", [OpenedFile(subject=PSEUDONYM, sha256="1" * 64)]
    )

    args = parse_command_line([*words, "--workspace", str(tmp_path)])
    args.command(args)

    (record,) = json.loads(capsys.readouterr().out)["records"]
    assert record["purpose"] == "ingestion of 2026-11-21" and record["by"]


def test_the_query_names_who_read_objects_of_the_day_and_nobody_else() -> None:
    day, other = "lake/scans/events/date=2026-11-20/a.parquet", "lake/scans/events/date=2026-11-21/a.parquet"
    records = [
        read(day),
        read(day, day="2026/12/01"),
        read(day, who="arn:aws:sts::000000000000:assumed-role/nightshift-prod-steps/pod"),
        read(other),
        read(day, name="PutObject"),
        read(day, error="AccessDenied", who="arn:aws:iam::000000000000:user/refused"),
        read(day, day="2026/11/19"),
    ]
    (query,) = sqlglot.transpile(statement("athena-query"), read="athena", write="duckdb")

    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE access ({RECORD})")
        connection.executemany("INSERT INTO access VALUES (?, ?, ?, ?, ?, ?, ?)", records)
        rows = connection.execute(query).fetchall()

    assert rows == [
        (READER, "GetObject", 2, "2026-11-25T08:00:00Z", "2026-12-01T08:00:00Z"),
        (
            "arn:aws:sts::000000000000:assumed-role/nightshift-prod-steps/pod",
            "GetObject",
            1,
            "2026-11-25T08:00:00Z",
            "2026-11-25T08:00:00Z",
        ),
    ]


def test_the_table_has_the_columns_of_the_query() -> None:
    table = sqlglot.parse_one(statement("athena-table"), read="hive")
    columns = {column.name for column in table.find_all(sqlglot.exp.ColumnDef)}
    query = sqlglot.parse_one(statement("athena-query"), read="athena")
    named = {column.parts[0].name for column in query.find_all(sqlglot.exp.Column)}

    assert {"eventtime", "useridentity", "requestparameters", "day"} <= named <= columns


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_the_places_of_the_logs_are_those_that_terraform_makes(cloud: str) -> None:
    module = (INFRA / cloud / "modules" / "access_logs" / "main.tf").read_text()
    if cloud == "aws":
        assert 'bucket              = "${var.name}-access-${var.account_id}"' in module
        assert "s3://nightshift-prod-access-000000000000/AWSLogs/000000000000/" in TEXT
    else:
        logs = re.findall(r"^    (\w+) += \{ days", module, re.MULTILINE)
        assert 'bucket_id      = "${var.name}-${each.key}"' in module
        assert set(re.findall(r"--bucket nightshift-prod-(\w+)", TEXT)) == set(logs)


def test_what_no_test_runs_is_marked() -> None:
    for section in re.split(r"^## |^\*\*(?=Google|AWS)", TEXT, flags=re.MULTILINE):
        if re.search(r"^(aws|gcloud) ", section, re.MULTILINE):
            assert "not run here" in section.lower(), section
