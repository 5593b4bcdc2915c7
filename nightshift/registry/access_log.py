"""The access log below the audit root: a file for each time that persons' files were opened, never changed again."""

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

from nightshift import registry, storage
from nightshift.contracts.access_log import AccessList, AccessRecord, OpenedFile

FOLDER = "accesses"


def log_opened(audit: str, use_case: str, purpose: str, files: Sequence[OpenedFile]) -> None:
    """Log that persons' files were opened by the user of this process.

    Args:
        audit: the audit root.
        use_case: name in the config.
        purpose: what for.
        files: what was opened.
    """
    now = datetime.now(UTC)
    record = AccessRecord(use_case=use_case, at=now, by=registry.user(), purpose=purpose, files=list(files))
    record.write(storage.join(audit, use_case, FOLDER, f"{now:%Y%m%dT%H%M%S%f}-{secrets.token_hex(4)}.json"))


def find_accesses(audit: str, use_case: str, subject: str) -> AccessList:
    """Return who has opened a person's files, with no one else's.

    Args:
        audit: the audit root.
        use_case: name in the config.
        subject: pseudonym of the person.

    Raises:
        UserError: when a record cannot be read.
    """
    folder = storage.join(audit, use_case, FOLDER)
    records = (AccessRecord.read(storage.join(folder, name)) for name in sorted(storage.names(folder)))
    own = [
        record.model_copy(update={"files": files})
        for record in records
        if (files := [file for file in record.files if file.subject == subject])
    ]
    return AccessList(subject=subject, records=own)
