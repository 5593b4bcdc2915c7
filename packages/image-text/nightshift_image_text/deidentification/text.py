"""Reports without identifiers: Presidio with recognizers of hospitals' own numbers, and a list of medical words."""

import re
from datetime import datetime, timedelta

from nightshift_image_text.deidentification.counts import Counts, Kind
from nightshift_image_text.deidentification.known import Known, fold
from nightshift_image_text.deidentification.pseudonyms import Pseudonyms

DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")


def clean_text(text: str, known: Known, pseudonyms: Pseudonyms) -> tuple[str, Counts]:
    """Return a report without identifiers, and what was masked in it.

    Args:
        text: a report.
        known: identifiers that the study's header names.
        pseudonyms: of the key of this lake; the report's dates are moved by the patient's days.
    """
    counts, days = Counts(), timedelta(days=pseudonyms.days(known.patient))
    for kind, pattern in known.patterns():
        if kind is not Kind.DATE:
            spans = [match.span() for match in pattern.finditer(fold(text))]
            counts[kind] += len(spans)
            for start, end in reversed(spans):
                text = f"{text[:start]}[{kind}]{text[end:]}"
    counts[Kind.DATE] = len(DATE.findall(text))
    return DATE.sub(lambda match: str(datetime.fromisoformat(match[0]).date() + days), text), +counts
