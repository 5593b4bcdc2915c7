"""`nightshift config guess` on files as people have them: each is read whole, or refused in one sentence."""

import gzip
import io
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nightshift_testkit.workbooks import write_workbook
from pipelines.configs import load
from tests.pipelines.samples import command

DAYS = 60
A_DAY = 10
HEADER = ["id", "at", "card", "amount", "channel", "fraud"]
WHOLE = f"Of {DAYS * A_DAY} rows of 2025-01-06 .. 2025-03-06 a run with this config takes all."


@dataclass(frozen=True)
class Payment:
    number: int
    at: datetime
    card: int
    amount: float
    channel: str
    is_fraud: bool

    def fields(self, **written: str) -> list[str]:
        """Return the fields of a line, as a tidy file has them but for those that are written otherwise."""
        plain = {
            "id": f"P{self.number}",
            "at": f"{self.at:%Y-%m-%d %H:%M}",
            "card": f"C{self.card}",
            "amount": f"{self.amount:.2f}",
            "channel": self.channel,
            "fraud": str(int(self.is_fraud)),
        }
        return list((plain | written).values())


def make_payments() -> list[Payment]:
    rng = np.random.default_rng(8)
    return [
        Payment(
            number,
            datetime(2025, 1, 6, 8) + timedelta(days=number // A_DAY, minutes=int(rng.integers(600))),
            int(rng.integers(60)),
            float(rng.gamma(2, 900) + 0.01),
            str(rng.choice(["web", "shop"])),
            bool(rng.random() < 0.25),
        )
        for number in range(DAYS * A_DAY)
    ]


PAYMENTS = make_payments()


def write(
    describe: Callable[[Payment], Sequence[str]] = Payment.fields,
    more: Sequence[str] = (),
    separator: str = ",",
    end: str = "\n",
) -> str:
    """Return a text file, with further columns after the usual ones."""
    lines = [[*HEADER, *more], *map(describe, PAYMENTS)]
    return "".join(separator.join(line) + end for line in lines)


def write_german(amount: float) -> str:
    return f"{amount:,.2f}".translate(str.maketrans(",.", "\u00a0,")) + " €"


def zipped(text: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("export/payments.tsv", text)
    return content.getvalue()


def count_days(at: datetime) -> float:
    """Return a time as Excel keeps it."""
    return round((at - datetime(1899, 12, 30)) / timedelta(days=1), 6)


def write_excel(times: str) -> bytes:
    """Return a workbook whose times are Excel's numbers of days, formatted as times or not."""
    rows = [
        [f"P{p.number}", count_days(p.at), f"C{p.card}", round(p.amount, 2), p.channel, int(p.is_fraud)]
        for p in PAYMENTS
    ]
    return write_workbook({"Payments": [["Payments of a shop"], HEADER, *rows]}, times)


def offset(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M}{'+01:00' if at < datetime(2025, 2, 3) else '+02:00'}"


LINES = write().splitlines()


@dataclass(frozen=True)
class Messy:
    """A file, and what of its config or of the output says that it was understood."""

    name: str
    content: str | bytes
    spelled: dict[str, Any] = field(default_factory=dict)
    says: str = WHOLE

    @property
    def data(self) -> bytes:
        return self.content if isinstance(self.content, bytes) else self.content.encode()


READ = {
    "UTF-16 with tabs, euros after amounts and Windows line ends": Messy(
        "a.txt",
        write(
            lambda p: p.fields(at=f"{p.at:%d.%m.%Y %H:%M}", amount=write_german(p.amount)), separator="\t", end="\r\n"
        ).encode("utf-16"),
        {"encoding": "utf-16", "separator": "\t", "decimal": ",", "thousands": " ", "units": ["€"]},
    ),
    "a euro sign that only Windows knows": Messy(
        "a.csv",
        write(lambda p: p.fields(amount=f"{p.amount:.2f} €".replace(".", ",")), separator=";").encode("cp1252"),
        {"encoding": "cp1252", "units": ["€"]},
        "as cp1252 it holds '€'",
    ),
    "a byte order mark, quoted line ends and semicolons in quotes": Messy(
        "a.csv",
        write(lambda p: [*p.fields(), '"two; lines\r\nand a ""quote"""'], ["note"], end="\r\n").encode("utf-8-sig"),
    ),
    "the header again in the middle, totals at the end": Messy(
        "a.csv",
        "\n".join([*LINES[:300], LINES[0], *LINES[300:], "Total,,,98765.43,,", "Average,,,164.61,,"]) + "\n",
        {"skip_rows": ["id", "Average", "Total"]},
    ),
    "groups of columns above the header": Messy(
        "a.csv", "\n".join(["Payment,,Customer,Money,,", *LINES]) + "\n", {"preamble_lines": 1}
    ),
    "units below the header": Messy(
        "a.csv", "\n".join([LINES[0], ",,,(EUR),,", *LINES[1:]]) + "\n", {}, "takes all but 1 (1 by missing_key)."
    ),
    "a first line for Excel": Messy("a.csv", "sep=;\n" + write(separator=";"), {"preamble_lines": 1}),
    "seconds since 1970 as quoted text": Messy(
        "a.csv",
        write(lambda p: p.fields(at=f'"{(p.at - datetime(1970, 1, 1)) // timedelta(seconds=1)}"')),
        {"times": ["epoch_seconds"]},
    ),
    "a clock of twelve hours": Messy(
        "a.csv", write(lambda p: p.fields(at=f"{p.at:%m/%d/%Y %I:%M %p}")), {"times": ["%m/%d/%Y %I:%M %p"]}
    ),
    "UTC spelled out": Messy(
        "a.csv", write(lambda p: p.fields(at=f"{p.at:%Y-%m-%d %H:%M:%S} UTC")), {"times": ["%Y-%m-%d %H:%M:%S UTC"]}
    ),
    "offsets that change in spring": Messy("a.csv", write(lambda p: p.fields(at=offset(p.at)))),
    "Y and N, and NULL where nobody knows": Messy(
        "a.csv",
        write(lambda p: p.fields(fraud="NULL" if p.number > 595 else "Y" if p.is_fraud else "N")),
        {"positive": ["Y"], "negative": ["N"], "missing": ["NULL"]},
    ),
    "an outcome in words, or a dash": Messy(
        "a.csv",
        write(lambda p: p.fields(fraud="charged back" if p.is_fraud else "-")).replace("fraud", "status", 1),
        {"positive": ["charged back"], "negative": ["-"]},
    ),
    "ids with leading zeros, two of them repeated": Messy(
        "a.csv",
        write(lambda p: p.fields(id=f"{p.number - (p.number % 300 == 1):06}")),
        {},
        "takes all but 2 (2 by duplicate_id).\n- Left out by duplicate_id, for example: id=",
    ),
    "percent signs": Messy(
        "a.csv", write(lambda p: [*p.fields(), f"{p.card / 2:.1f} %"], ["discount"]), {"units": ["%"]}
    ),
    r"\N for nothing": Messy(
        "a.csv", write(lambda p: [*p.fields(), "north" if p.number % 3 else "\\N"], ["region"]), {"missing": ["\\N"]}
    ),
    "a column that is filled in with the outcome": Messy(
        "a.csv",
        write(lambda p: [*p.fields(), f"{p.at + timedelta(days=4):%Y-%m-%d}" * p.is_fraud], ["refund_date"]),
        {},
        "Left out: 'refund_date', since on 100% of its rows it is later than the event.",
    ),
    "a separator after the last field": Messy("a.csv", write(lambda p: [*p.fields(), ""], [""], separator=";")),
    "an Excel sheet with a title": Messy("a.xlsx", write_excel(times="B"), {"preamble_lines": 1}),
    "gzip": Messy("a.csv.gz", gzip.compress(write().encode())),
    "zip": Messy("a.zip", zipped(write(separator="\t")), {"separator": "\t"}),
    "a name of the pipeline's own": Messy(
        "a.csv",
        write(lambda p: [*p.fields(), str(p.number % 7)], ["score"]),
        says="the column is called 'input_score' (source.columns)",
    ),
    "quotes after a backslash": Messy(
        "a.csv",
        write(lambda p: [*p.fields(), '"a \\"quoted\\" word, and more"'], ["note"]),
        {"escape": "\\"},
    ),
}
REFUSED = {
    "weeks": Messy(
        "a.csv", write(lambda p: p.fields(at=f"{p.at:%G-W%V-%u}")), says="no column holds times that can be read"
    ),
    "months in German": Messy(
        "a.csv",
        write(lambda p: p.fields(at=f"{p.at.day}. {('Januar', 'Februar', 'März')[p.at.month - 1]} {p.at:%Y}")),
        says="at=6. Januar 2025, ",
    ),
    "times of an Excel sheet that are formatted as numbers": Messy(
        "a.xlsx", write_excel(times=""), says="no column holds times that can be read"
    ),
    "Excel's numbers of days": Messy(
        "a.csv",
        write(lambda p: p.fields(at=str(count_days(p.at)))),
        says="write times such as 2025-12-31 14:30",
    ),
    "three outcomes": Messy(
        "a.csv",
        write(lambda p: p.fields(fraud="won" if p.is_fraud else "lost" if p.number % 2 else "open")),
        says="give --label with one of channel, fraud, and --positive VALUE",
    ),
    "columns without a separator": Messy("a.txt", write(separator="   "), says="has one field a line"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", READ)
def test_a_messy_file_is_read_at_the_first_try(kind: str, tmp_path: Path) -> None:
    file, config = READ[kind], tmp_path / "c.yaml"
    (tmp_path / file.name).write_bytes(file.data)

    done = command("config", "guess", str(tmp_path / file.name), "--output", str(config))

    assert done.returncode == 0, done.stderr
    assert file.says in done.stdout
    value = load(str(config))
    spelled = value["source"].get("format", {})
    assert {key: spelled.get(key) for key in file.spelled} == file.spelled
    assert {key: value["columns"][key] for key in ("event_id", "event_time", "customer", "amount")} == {
        "event_id": "id",
        "event_time": "at",
        "customer": "card",
        "amount": "amount",
    }


@pytest.mark.parametrize("kind", REFUSED)
def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(kind: str, tmp_path: Path) -> None:
    file = REFUSED[kind]
    (tmp_path / file.name).write_bytes(file.data)

    done = command("config", "guess", str(tmp_path / file.name), "--output", str(tmp_path / "c.yaml"))

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert file.says in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("spelled", "field"), [("%Y%m%d", "{date:%Y%m%d}"), ("%Y_%m_%d", "{date:%Y_%m_%d}")])
def test_files_whose_names_spell_the_day_otherwise_are_one_table(spelled: str, field: str, tmp_path: Path) -> None:
    folder = tmp_path / "exports"
    folder.mkdir()
    for first in range(0, DAYS * A_DAY, A_DAY):
        lines = [LINES[0], *LINES[first + 1 : first + A_DAY + 1]]
        (folder / f"payments-{PAYMENTS[first].at.strftime(spelled)}.csv").write_text("\n".join(lines) + "\n")

    done = command("config", "guess", str(folder), "--output", str(tmp_path / "c.yaml"))

    assert done.returncode == 0, done.stderr
    assert WHOLE in done.stdout
    config = load(str(tmp_path / "c.yaml"))
    assert (config["name"], config["source"]["files"]) == ("payments", f"payments-{field}.csv")


def test_a_file_without_an_id_and_with_its_time_in_parts_is_read_as_it_is(tmp_path: Path) -> None:
    lines = [["year", "month", "day", "time", *HEADER[2:]]]
    lines += [[*f"{p.at:%Y %m %d %H:%M}".split(), *p.fields()[2:]] for p in PAYMENTS]
    (tmp_path / "a.csv").write_text("".join(",".join(line) + "\n" for line in lines))

    done = command("config", "guess", str(tmp_path / "a.csv"), "--output", str(tmp_path / "c.yaml"))

    assert done.returncode == 0, done.stderr
    assert WHOLE in done.stdout
    config = load(str(tmp_path / "c.yaml"))
    assert config["source"]["columns"]["derived_time"]["time"] == "time"
    assert (config["columns"]["event_id"], config["columns"]["event_time"]) == ("row_number", "derived_time")
    assert config["columns"]["numeric"] == []
