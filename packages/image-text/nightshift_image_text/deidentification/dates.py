"""Dates in texts: how they are written, and how they are moved."""

from datetime import date, datetime, timedelta

MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(?:[a-z]*\.?)"
DAY, YEAR = r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?", r"(?:19|20)\d\d"
PATTERNS = (
    rf"\b{YEAR}[-/.](?:0?[1-9]|1[0-2])[-/.](?:0?[1-9]|[12]\d|3[01])(?!\d)",
    rf"\b(?:0?[1-9]|[12]\d|3[01])[-/.](?:0?[1-9]|[12]\d|3[01])[-/.](?:{YEAR}|\d\d)\b",
    rf"\b{MONTH}\s+{DAY},?\s+{YEAR}\b",
    rf"\b{DAY}[\s-]+(?:of\s+)?{MONTH},?[\s-]+(?:{YEAR}|'?\d\d)\b",
    rf"\b{YEAR}[\s-]+{MONTH}[\s-]+{DAY}\b",
    rf"\b{MONTH},?\s+{YEAR}\b",
    rf"\b{YEAR}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\b",
    rf"\b{MONTH}\s+{DAY}\b(?!\s*(?:mm|cm|%))",
    rf"\b{DAY}\s+(?:of\s+)?(?:jan|feb|apr|jun|jul|aug|sep|oct|nov|dec|march|april)[a-z]*\b",
    r"(?<=\b(?:on|dated|from|since|of|until|by)\s)(?:0?[1-9]|1[0-2])/(?:0?[1-9]|[12]\d|3[01])(?![\d/])",
)
FORMS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%Y-%b-%d", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y"),
    *("%d.%m.%Y", "%d.%m.%y", "%m-%d-%Y", "%d-%m-%Y", "%m-%d-%y", "%B %d, %Y", "%b %d, %Y", "%B %d %Y", "%b %d %Y"),
    *("%d %B %Y", "%d %b %Y", "%d-%b-%Y", "%d-%B-%Y", "%d-%b-%y", "%d %b %y", "%B %Y", "%b %Y"),
)


def read_date(text: str) -> tuple[date, str] | None:
    """Return a date and its form for `strftime`; None where it is not written in one of `FORMS`."""
    for form in FORMS:
        try:
            return datetime.strptime(" ".join(text.split()), form).date(), form
        except ValueError:
            continue
    return None


def shift_date(text: str, days: int) -> str | None:
    """Return a date moved by some days, as it was written; None where it cannot be read."""
    reading = read_date(text)
    return (reading[0] + timedelta(days=days)).strftime(reading[1]) if reading else None
