"""Reports without identifiers: found by Presidio's analyzer, dates moved, everything else replaced by its kind."""

from collections.abc import Callable, Sequence
from functools import cache

from presidio_analyzer import RecognizerResult as Finding
from presidio_anonymizer import AnonymizerEngine
from presidio_anonymizer.entities import OperatorConfig
from presidio_anonymizer.entities import RecognizerResult as Span

from nightshift_image_text.deidentification import dates, recognizers
from nightshift_image_text.deidentification.counts import Counts, Identifier
from nightshift_image_text.deidentification.known import KnownIdentifiers
from nightshift_image_text.deidentification.pseudonyms import Pseudonyms

OLDER = "90+"


def clean_text(text: str, known: KnownIdentifiers, pseudonyms: Pseudonyms) -> tuple[str, Counts]:
    """Return a report without identifiers, and what was masked in it.

    Dates are moved by the patient's days but those of birth, ages over 89 become 90+, and whatever else is found is
    replaced by its kind, as in `[NAME]`.

    Args:
        text: a report in English.
        known: identifiers that the study's header names.
        pseudonyms: of the key of this lake.
    """
    spans = _join(recognizers.analyze(text, known))
    days = pseudonyms.days(known.patient)
    operators = {kind.name: _replace_by(f"[{kind.name}]") for kind in Identifier}
    operators |= {
        Identifier.AGE.name: _replace_by(OLDER),
        Identifier.DATE.name: _call(lambda day: _move(day, known, days)),
    }
    cleaned: str = _anonymizer().anonymize(text, spans, operators).text
    return cleaned, Counts(Identifier[span.entity_type] for span in spans)


def _join(findings: Sequence[Finding]) -> list[Span]:
    """Return findings that do not overlap: where some do, their whole is of the kind of the longest."""
    spans: list[Span] = []
    for finding in sorted(findings, key=lambda finding: (finding.start, -finding.end)):
        if spans and finding.start < spans[-1].end:
            longest = max(spans[-1], finding, key=lambda span: span.end - span.start)
            spans[-1] = Span(longest.entity_type, spans[-1].start, max(spans[-1].end, finding.end), finding.score)
        else:
            spans.append(Span(finding.entity_type, finding.start, finding.end, finding.score))
    return spans


def _move(text: str, known: KnownIdentifiers, days: int) -> str:
    """Return a date moved by some days; one of birth, or one that cannot be read, is masked."""
    reading = dates.read_date(text)
    is_masked = reading is None or reading[0] == known.born
    return f"[{Identifier.DATE.name}]" if is_masked else dates.shift_date(text, days) or ""


@cache
def _anonymizer() -> AnonymizerEngine:
    return AnonymizerEngine()


def _replace_by(text: str) -> OperatorConfig:
    return OperatorConfig("replace", {"new_value": text})


def _call(function: Callable[[str], str]) -> OperatorConfig:
    return OperatorConfig("custom", {"lambda": function})
