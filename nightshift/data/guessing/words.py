"""Words in the names of columns, in the languages that tables come in; a name is a hint, never a proof."""

import re

_WORDS = {
    "identifier": "id no nr num number key uuid guid ref reference nummer numero numéro",
    "key": "id uuid guid code zip postcode plz",
    "customer": "customer client account user card member machine device patient subscriber vehicle asset engine "
    "cliente compte kunde kunden konto maschine gerät usuario cc acct cust userid custid cardholder borrower applicant "
    "buyer sender payer orig passenger driver rider visitor guest employee ip ssn iban msisdn tailnum aircraft",
    "terminal": "terminal shop store merchant site branch location place station vendor warehouse filiale geschäft "
    "händler laden magasin tienda comercio merch seller retailer payee recipient beneficiary dest destination origin "
    "airport publisher pos atm",
    "amount": "amount price value total charge fare revenue betrag preis montant prix importe precio amt amnt",
    "product": "product sku item article route line series channel warehouse region produkt artikel",
    "number_label": "demand sales sold delay fare consumption absatz nachfrage verspätung verbrauch",
    "label": "label target fraud fraudulent isfraud churn churned charged chargeback converted conversion default "
    "defaulted failure failed fail returned cancelled canceled outcome positive betrug storniert bounced won lost sold",
    "positive": "1 true yes y t ja j oui si sí sim x positive fraud failed bad",
    "negative": "0 false no n f nein non não negative ok good legit",
    "negation": "no not non never nicht kein keine",
    "class_label": "label target class category queue priority severity species diagnosis intent kategorie klasse",
}
CAMEL_CASE = re.compile("(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SETS = {role: frozenset(text.split()) for role, text in _WORDS.items()}
IDENTIFIER, KEY, CUSTOMER, TERMINAL, AMOUNT, PRODUCT, NUMBER_LABEL, LABEL, POSITIVE, NEGATIVE, NEGATION, CLASS_LABEL = (
    _SETS.values()
)
DATE = frozenset(["date", "datum", "fecha", "day", "tag", "jour", "time", "timestamp", "dt"])
NULL = frozenset(["NULL", "#N/A", "\\N"])  # which programs write for nothing, and people for no value of theirs
MISSING = NULL | frozenset(["NA", "N/A", "n/a", "null", "None", "none", "NaN", "nan", "-", "--", "?"])


def split(name: str) -> set[str]:
    """Return the words of a column's name: `chargedBack`, `charged_back` and `Charged back` have the same."""
    return set(re.findall(r"[^\W\d_]+", CAMEL_CASE.sub(" ", name).lower()))


def count_others(name: str, words: frozenset[str]) -> int:
    """Return how many words of a column's name are none of some words, nor of an identifier's."""
    return len(split(name) - words - IDENTIFIER)


def has_any(name: str, words: frozenset[str]) -> bool:
    """Return whether a column's name has one of some words."""
    return not words.isdisjoint(split(name))
