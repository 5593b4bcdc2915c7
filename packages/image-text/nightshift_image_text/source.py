"""The source `dicom`: a folder of DICOM files with a table of reports by day, de-identified as they are read.

Rows are filed under the day of their table, at midnight: the lake's day is when a study was delivered, which nobody
shifts. Dates in headers and reports are moved by the patient's days, and no time of day is kept.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from os import environ
from typing import TYPE_CHECKING, Any, ClassVar

from components.ingestion import formats
from components.ingestion.sources.contents import read_content
from components.ingestion.sources.protocol import FAULT, DayAccount, RawRows
from nightshift import storage
from nightshift.config import Config
from nightshift.contracts.access_log import OpenedFile
from nightshift.items.images import UnusableError
from nightshift.runtime.errors import UnavailableError, UserError, nearest
from nightshift_image_text.config import ImageTextConfig

if TYPE_CHECKING:
    import pandas as pd

    from nightshift_image_text.cleaning import Cleaner

VERSION = 1  # of what is taken out: raise it, and every day is read again
READ = ("image", "report", "label")  # roles of a table's columns; all others come from the files


def connect(data: str, config: Config) -> "StudySource":
    """Return the source of `--data dicom://FOLDER`, where the folder may be the URI of one in an object store.

    Raises:
        UserError: when the config is of another task or layout, there is no key, or a library is not installed.
    """
    if not isinstance(config, ImageTextConfig) or config.source.files is None:
        raise UserError(
            f"--data is {data}, and config {config.name!r} is of task {config.task.kind!r} with source "
            f"{config.source.pattern!r}; this source takes task image-text, and source.files with a table of reports "
            "a day, such as '{date}.csv'"
        )
    try:
        from nightshift_image_text.cleaning import Cleaner
        from nightshift_image_text.deidentification.pseudonyms import Pseudonyms
    except ModuleNotFoundError as error:
        raise UserError(
            f"--data is {data}, and {error.name} is not installed; "
            "pip install 'nightshift-image-text[dicom,deidentification]'"
        ) from None
    cleaner = Cleaner(Pseudonyms(read_key(config.studies.key)), config.task.max_pixels)
    return StudySource(data.partition("://")[2], config, cleaner)


def read_key(reference: str, environment: Mapping[str, str] = environ) -> bytes:
    """Return the key of the pseudonyms.

    Args:
        reference: an environment variable's name, or a file's path with a /.
        environment: the variables.

    Raises:
        UserError: when there is no such variable or file.
    """
    if "/" in reference:
        return storage.read_bytes(reference).strip()
    if not environment.get(reference):
        raise UserError(
            f"studies.key is {reference!r}, and no environment variable of this name is set; set it to a secret "
            "(`openssl rand -hex 32` makes one), or write the path of a file that holds one, with a /"
        )
    return environment[reference].encode()


@dataclass(frozen=True)
class StudySource:
    """Tables of reports by day, whose rows name DICOM files in the same folder.

    Attributes:
        root: URI of the folder.
        config: the use case.
        cleaner: takes identifiers out.
    """

    has_fixed_dtypes: ClassVar = False
    details: ClassVar[Mapping[str, Any]] = {}  # each day has a hash of its own
    root: str
    config: ImageTextConfig
    cleaner: "Cleaner"

    def name(self, day: date) -> str:
        """Return the name of the day's table."""
        return storage.join(self.root, self.config.source.pattern.format(date=day))

    def absence(self, day: date) -> str:
        """Return that there is no table of a day, for a message."""
        return f"{self.name(day)} does not exist"

    def has(self, day: date) -> bool:
        """Return whether there is a table of the day."""
        return storage.exists(self.name(day))

    def read(self, day: date) -> RawRows:
        """Return a day's rows, identified by their table and the key; the files are taken to stay as they are."""
        table = storage.read_settled(self.name(day))
        key = self.cleaner.pseudonyms.name("the key of a day")
        studies = StudyDay(self, day, table)
        return RawRows(storage.fingerprint([storage.sha256(table), key, VERSION]), studies.load, studies.account)


@dataclass
class StudyDay:
    """The studies of a day.

    Attributes:
        source: where they come from.
        day: under which they are filed.
        table: the bytes of the day's table.
        opened: the files that were opened, once the rows are loaded.
        masked: what was masked in them -> how often.
    """

    source: StudySource
    day: date
    table: bytes
    opened: list[OpenedFile] = field(default_factory=list)
    masked: Counter[str] = field(default_factory=Counter)

    def load(self) -> "pd.DataFrame":
        """Return a row for each frame of each file, under the user's column names.

        Raises:
            UserError: when the table cannot be read, or lacks a column.
        """
        import pandas as pd

        self.opened, self.source.cleaner.masked = [], Counter()
        rows = [row for record in self._read_table() for row in self._clean(record)]
        self.masked = self.source.cleaner.masked
        columns = self.source.config.columns
        return pd.DataFrame(rows, columns=[*columns.roles, FAULT], dtype=object).rename(columns=columns.roles)

    def account(self) -> DayAccount:
        """Return what was masked, and which files were opened."""
        return DayAccount(dict(self.masked), self.opened)

    def _read_table(self) -> list[dict[str, Any]]:
        """Return a record for each row: role -> value."""
        frame = formats.read_rows(self.source.name(self.day), self.table, self.source.config.source.format)
        roles = {role: self.source.config.columns.roles[role] for role in READ}
        for role, column in roles.items():
            if column not in frame:
                raise UserError(
                    f"has no column {column!r} (columns.{role}{nearest(column, map(str, frame.columns))}); name the "
                    "right one in the config"
                )
        values = zip(*(frame[column] for column in roles.values()), strict=True)
        return [dict(zip(roles, row, strict=True)) for row in values]

    def _clean(self, record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a file; of one that cannot be cleaned a single one, with the rule, and nothing of it."""
        shared = {"event_time": _midnight(self.day), "label": record["label"]}
        report = record["report"] if isinstance(record["report"], str) else ""
        cleaner, rows = self.source.cleaner, list[dict[str, Any]]()
        nothing = {"event_id": cleaner.pseudonyms.name(str(record["image"])), "image": b"", "report": ""}
        try:
            for image in cleaner.clean(self._open(record["image"]), report):
                own = {"group": image.patient, "study": image.study, "scanner": image.scanner, "site": image.site}
                rows.append({"event_id": image.name, "image": image.image, "report": image.report, **own, **shared})
        except UnusableError as error:
            rows = [{**nothing, FAULT: str(error), **shared}]
        except (UserError, UnavailableError):
            raise
        except Exception:  # what cannot be cleaned does not pass, whatever was in the way
            rows = [{**nothing, FAULT: "not_cleaned", **shared}]
        yield from rows

    def _open(self, path: Any) -> bytes:
        """Return the bytes of a file below the folder, and note that they were read.

        Raises:
            UnusableError: `missing_file`.
        """
        content = read_content(self.source.root, path)
        if not isinstance(content, bytes):
            raise UnusableError("missing_file")
        patient = self.source.cleaner.read_patient(content)
        self.opened.append(OpenedFile(subject=patient, sha256=storage.sha256(content)))
        return content


def _midnight(day: date) -> "pd.Timestamp":
    import pandas as pd

    return pd.Timestamp(day, tz="UTC")
