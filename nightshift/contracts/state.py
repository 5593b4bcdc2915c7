"""Where things are kept and models go: one parameter of every pipeline, one flag (`--state`) of every step."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

from nightshift.runtime import strict_json
from nightshift.runtime.errors import UserError, check_names, nearest


class DeploymentTarget(StrEnum):
    """What becomes of a model that may be deployed."""

    LOCAL = "local"  # promoted, and served from this machine
    REGISTER_ONLY = "register-only"  # promoted
    RECORD_ONLY = "record-only"  # neither: runs for past days


TARGETS = [entry.value for entry in DeploymentTarget]


@dataclass(frozen=True)
class State:
    """The roots of what outlives a run, as URIs, and what is done with models.

    Attributes:
        lake: tables by day.
        registry: models, a folder or a tracking server.
        runs: runs, their summaries and reports.
        audit: the retraining controller's audit log.
        checkpoints: what a step that is ended early resumes from.
        target: where models are deployed.
        kubeflow: where a step starts runs, see `nightshift.cluster.kubeflow.KubeflowTarget`; empty without Kubeflow.
        serving: where a release has versions answer, see `components.release.targets.factory`; empty for the target.
        dask: the cluster on which features of tables are made: a scheduler's address, or `local:<workers>`; empty for
            the process of the step.
    """

    lake: str
    registry: str
    runs: str
    audit: str
    checkpoints: str
    target: DeploymentTarget
    kubeflow: Mapping[str, str] = field(default_factory=dict)
    serving: Mapping[str, Any] = field(default_factory=dict)
    dask: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the flag `--state`.

        Raises:
            UserError: when it is not a JSON object, or not a state.
        """
        return cls.from_mapping(strict_json.loads(text, "--state"))

    @classmethod
    def from_mapping(cls, value: Any) -> Self:
        """Check a mapping of field names to values.

        Raises:
            UserError: for a field that is unknown, missing, or has a value that is not allowed.
        """
        if not isinstance(value, Mapping):
            raise UserError(f"state is {value!r}; it takes an object with {', '.join(_NAMES)}")
        check_names("state", value, _NAMES)
        roots = {name: _root(name, value.get(name)) for name in ROOTS}
        return cls(
            **roots,
            target=target(value.get("target")),
            kubeflow=_read_object("kubeflow", value),
            serving=_read_object("serving", value),
            dask=dask(value.get("dask", "")),
        )

    def dump(self) -> dict[str, Any]:
        """Return what `from_mapping` reads, as JSON holds it."""
        return asdict(self) | {
            "target": self.target.value,
            "kubeflow": dict(self.kubeflow),
            "serving": dict(self.serving),
        }


_NAMES = [entry.name for entry in fields(State)]
ROOTS = tuple(entry.name for entry in fields(State) if entry.type is str and entry.default is MISSING)
_DASK = re.compile(r"|(?:tcp|tls)://\S+:\d+|local:[1-9]\d*")


def dask(value: Any) -> str:
    """Check the address of a Dask cluster.

    Raises:
        UserError: when it is none.
    """
    if not isinstance(value, str) or not _DASK.fullmatch(value):
        allowed = "tcp://<host>:<port>, tls://<host>:<port> or local:<workers>, such as local:2"
        raise UserError(f"state.dask is {value!r}; write {allowed}, or leave it out")
    return value


def target(value: Any) -> DeploymentTarget:
    """Check a target.

    Raises:
        UserError: when it is unknown.
    """
    if value not in TARGETS:
        raise UserError(f"state.target is {value!r}; allowed: {', '.join(TARGETS)}{nearest(str(value), TARGETS)}")
    return DeploymentTarget(value)


def _root(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise UserError(f"state.{name} is {value!r}; give a folder or a URI, such as s3://bucket/{name}")
    return value


def _read_object(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    value = state.get(name, {})
    if not isinstance(value, Mapping):
        raise UserError(f"state.{name} is {value!r}; give an object, or {{}} where there is none")
    return dict(value)
