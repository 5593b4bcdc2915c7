"""Where a pipeline's state lies: the roots of lake, registry and runs, and where models are deployed."""

from dataclasses import dataclass
from pathlib import Path

TARGETS = ("local", "register-only", "record-only")


@dataclass(frozen=True)
class Environment:
    """The URIs and the deployment target of one place to run in.

    Attributes:
        lake: root of the tables by day.
        registry: root of the model registry, a folder or a tracking server.
        runs: root of the runs, their summaries and reports.
        audit: root of the retraining controller's audit log.
        target: `local` promotes a version and serves it from this machine, `register-only` promotes it,
            `record-only` does neither.
    """

    lake: str
    registry: str
    runs: str
    audit: str
    target: str


def local(workspace: Path, target: str = "local") -> Environment:
    """Return the environment of one machine: everything below a folder."""
    root = workspace.resolve()
    lake, registry, runs, audit = (str(root / name) for name in ("lake", "registry", "runs", "audit"))
    return Environment(lake, registry, runs, audit, target)
