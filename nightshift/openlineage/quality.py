"""What a step found wrong with its inputs, as OpenLineage's assertions: rows in quarantine, a gate's measures."""

from collections.abc import Iterator

from openlineage.client.facet_v2 import data_quality_assertions_dataset
from openlineage.client.generated.data_quality_assertions_dataset import Assertion

from nightshift import storage
from nightshift.contracts import verdict
from nightshift.contracts.tables import Table
from nightshift.contracts.verdict import Measure, Verdict
from nightshift.runtime.errors import UserError


def make_facet(assertions: list[Assertion]) -> data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet:
    """Return the facet of the dataset that the assertions are about."""
    return data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions=assertions)


def list_rejected(table: Table) -> Iterator[Assertion]:
    """Yield an assertion for each reason of the quarantine, with the number of rows."""
    read = table.details.get("read", 0)
    for reason, rows in table.details.get("quarantined", {}).items():
        yield Assertion(
            assertion=reason,
            success=not rows,
            severity="warn",
            name=f"quarantine.{reason}",
            description=f"rows that are left out for {reason}, of {read}",
            expected="0",
            actual=str(rows),
        )


def list_measures(folder: str) -> Iterator[Assertion]:
    """Yield the verdict that a gate has written into a folder, and its measures; nothing without one."""
    uri = storage.join(folder, verdict.FILE)
    try:
        judged = Verdict.read(uri) if storage.exists(uri) else None
    except UserError:
        return
    if judged is None:
        return
    severity = "warn" if judged.advisory else "error"
    yield Assertion(
        assertion=judged.gate,
        success=judged.is_pass,
        severity=severity,
        name=f"gate.{judged.gate}",
        description=" ".join(judged.reasons),
        actual=judged.decision.value,
    )
    for measure in judged.measures:
        if measure.limit is not None and measure.value is not None:
            yield _describe(measure, judged.gate, severity)


def _describe(measure: Measure, gate: str, severity: str) -> Assertion:
    value, limit = measure.value or 0.0, measure.limit or 0.0
    return Assertion(
        assertion=measure.name,
        success=value >= limit if measure.higher_is_better else value <= limit,
        severity=severity,
        name=f"{gate}.{measure.name}",
        expected=f"{'>=' if measure.higher_is_better else '<='} {limit:g}",
        actual=f"{value:g}",
    )
