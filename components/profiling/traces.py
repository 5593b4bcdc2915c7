"""What a trace of a GPU says, by the package that explains traces; without it, the step measures all the same."""

from collections.abc import Sequence
from typing import Protocol

from nightshift import entry_points
from nightshift.contracts.profile import Finding
from nightshift.contracts.section import Block


class TraceReader(Protocol):
    """A module that explains traces."""

    def diagnose(self, trace: bytes, /) -> list[Finding]:
        """Return what a compressed Chrome trace of a fit shows."""

    def describe(self, findings: Sequence[Finding], /) -> list[Block]:
        """Return what a report shows of findings."""

    def shorten(self, kernel: str, /) -> str:
        """Return a kernel's name as people call it."""


def diagnose(trace: bytes) -> list[Finding]:
    """Say what a trace shows of the GPU; of the first steps, where the fit marks none."""
    return [finding for reader in _readers() for finding in reader.diagnose(trace)]


def describe(findings: Sequence[Finding]) -> list[Block]:
    """Return what a report shows of findings; nothing of none."""
    return [block for reader in _readers() for block in reader.describe(findings)] if findings else []


def shorten(kernel: str) -> str:
    """Return a kernel's name as people call it; as it is, where no package knows."""
    for reader in _readers():
        kernel = reader.shorten(kernel)
    return kernel


def _readers() -> list[TraceReader]:
    return [point.load() for point in entry_points.find(entry_points.PROFILES).values()]
