"""Words in the names of columns, in the languages that tables come in; a name is a hint, never a proof."""

import re

_WORDS = {
    "identifier": "id no nr num number key uuid guid ref reference nummer numero numéro",
    "key": "id uuid guid code zip postcode plz",
    "customer": "customer client account user card member machine device patient subscriber vehicle asset engine "
    "cliente compte kunde kunden konto maschine gerät usuario",
    "terminal": "terminal shop store merchant site branch location place station vendor warehouse filiale geschäft "
    "händler laden magasin tienda comercio",
    "amount": "amount price value total charge fare revenue betrag preis montant prix importe precio",
    "label": "label target fraud fraudulent isfraud churn churned charged chargeback converted conversion default "
    "defaulted failure failed fail returned cancelled canceled outcome positive betrug storniert bounced won lost sold",
    "positive": "1 true yes y t ja j oui si sí sim x positive fraud failed bad",
    "negative": "0 false no n f nein non não negative ok good legit",
    "negation": "no not non never nicht kein keine",
}
_SETS = {role: frozenset(text.split()) for role, text in _WORDS.items()}
IDENTIFIER, KEY, CUSTOMER, TERMINAL, AMOUNT, LABEL, POSITIVE, NEGATIVE, NEGATION = _SETS.values()
DATE = frozenset(["date", "datum", "fecha", "day", "tag", "jour", "time", "timestamp", "dt"])
NULL = frozenset(["NULL", "#N/A", "\\N"])  # which programs write for nothing, and people for no value of theirs
MISSING = NULL | frozenset(["NA", "N/A", "n/a", "null", "None", "none", "NaN", "nan", "-", "--", "?"])


def split(name: str) -> set[str]:
    """Return the words of a column's name: `chargedBack`, `charged_back` and `Charged back` have the same."""
    return set(re.findall(r"[^\W\d_]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()))


def has_any(name: str, words: frozenset[str]) -> bool:
    """Return whether a column's name has one of some words."""
    return not words.isdisjoint(split(name))
