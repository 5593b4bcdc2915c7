"""What the profiling step has a trace explained by; see `components.profiling.traces`."""

from collections.abc import Sequence
from io import BytesIO

from nightshift.contracts.profile import TRACE, Finding
from nightshift.contracts.section import Block
from nightshift_perf.traces import analysis, kineto, section
from nightshift_perf.traces.analysis import Known
from nightshift_perf.traces.names import short as shorten

__all__ = ["describe", "diagnose", "shorten"]


def diagnose(trace: bytes) -> list[Finding]:
    """Return what a trace shows; of the first steps, where the fit marks none."""
    return analysis.analyze([kineto.read(BytesIO(trace), TRACE)], Known()).diagnosis


def describe(findings: Sequence[Finding]) -> list[Block]:
    """Return the diagnosis and the advice."""
    return [section.diagnosis(findings), section.advice(findings)]
