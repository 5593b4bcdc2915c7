"""Planted identifiers in reports: cleaned by this package, with and without the header, and by plain Presidio."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import tldextract
from presidio_analyzer import AnalyzerEngine
from presidio_analyzer.nlp_engine import SpacyNlpEngine
from presidio_anonymizer import AnonymizerEngine

from benchmarks import figures
from benchmarks.deidentification import searches
from benchmarks.deidentification.headers import OURS, PSEUDONYMS
from benchmarks.deidentification.shares import Span, share
from nightshift_image_text.deidentification.corpus.headers import write_header
from nightshift_image_text.deidentification.corpus.identities import draw_identity, read_names
from nightshift_image_text.deidentification.corpus.reports import PlantedReport, read_templates, write_report
from nightshift_image_text.deidentification.known import KnownIdentifiers, read_known
from nightshift_image_text.deidentification.recognizers import LANGUAGE, MODEL
from nightshift_image_text.deidentification.text import clean_text

GROUPS = ("development", "holdout")
Cleaner = Callable[[str, KnownIdentifiers], str]


def clean_by_presidio(text: str, known: KnownIdentifiers) -> str:  # noqa: ARG001 - it does not read headers
    """Return a text cleaned by Presidio as it is installed, with the same language model."""
    findings = _presidio().analyze(text, LANGUAGE)
    cleaned: str = AnonymizerEngine().anonymize(text, findings).text
    return cleaned


CLEANERS: Mapping[str, Cleaner] = {
    OURS: lambda text, known: clean_text(text, known, PSEUDONYMS)[0],
    "this package, no header": lambda text, _: clean_text(text, KnownIdentifiers(""), PSEUDONYMS)[0],
    "Presidio": clean_by_presidio,
}


def measure(studies: int, minutes: float) -> list[figures.Row]:
    """Return the rows of each cleaner and group, of as many studies as fit in its part of the time: half is ours."""
    rows: list[figures.Row] = []
    for name in CLEANERS:
        seconds = 60 * minutes / len(GROUPS) * (1 / 2 if name == OURS else 1 / 2 / (len(CLEANERS) - 1))
        for remainder, group in enumerate(GROUPS):
            rows.append(measure_cleaner(name, group, Span(range(studies)[remainder :: len(GROUPS)], seconds)))
    return rows


def measure_cleaner(name: str, group: str, span: Span) -> figures.Row:
    """Return what one cleaner leaves, and which other words it masks."""
    counts: Counter[str] = Counter()
    for number in span:
        rng = np.random.default_rng(number)
        identity = draw_identity(rng, read_names(group))
        known = read_known(write_header(rng, identity))
        report = write_report(rng, identity, read_templates(group))
        counts += _count(report, CLEANERS[name](report.text, known))
    missed = {key.removeprefix("left "): count for key, count in counts.items() if key.startswith("left ")}
    return {
        "cleaner": name,
        "templates and names": group,
        "reports": counts["reports"],
        **share("identifiers", counts["identifiers"] - counts["left"], counts["identifiers"], "removed"),
        "other words masked, %": f"{100 * counts['lost'] / max(counts['words'], 1):.2f}",
        "left": ", ".join(f"{field} {count}" for field, count in sorted(missed.items(), key=lambda item: -item[1])[:4]),
    }


def _count(report: PlantedReport, cleaned: str) -> Counter[str]:
    left = [planted.field for planted in report.planted if searches.is_left(planted.text, cleaned)]
    rest, end = [], 0
    for planted in report.planted:
        rest.append(report.text[end : planted.start])
        end = planted.end
    words = re.findall(r"\w+", " ".join([*rest, report.text[end:]]))
    counts = Counter({"reports": 1, "identifiers": len(report.planted), "left": len(left), "words": len(words)})
    return counts + Counter({"lost": searches.count_lost(words, cleaned)}) + Counter(f"left {field}" for field in left)


@cache
def _presidio() -> AnalyzerEngine:
    tldextract.extract = tldextract.TLDExtract(suffix_list_urls=())  # it would fetch a list of domains
    return AnalyzerEngine(nlp_engine=SpacyNlpEngine([{"lang_code": LANGUAGE, "model_name": MODEL}]))
