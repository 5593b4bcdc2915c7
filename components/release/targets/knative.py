"""KServe on Knative, where revisions can share the requests.

The object holds the newest version and the percentage of the requests that it gets; the rest goes to the revision that
had all of them last. A new version comes in at 0 % and is asked first, so no request reaches one that is not ready or
not right.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from components.release.targets import VersionShare, check, percents
from components.release.targets.kserve import (
    GROUP,
    NEWEST,
    REPLACES,
    KServe,
    KServeSettings,
    Object,
    conditions,
    is_ready,
    key,
    notes,
)

CHAMPION = "nightshift/champion"


@dataclass(frozen=True)
class KnativeSettings(KServeSettings):
    """Where the object lies, what its containers run, and when Knative's autoscaler adds replicas.

    Attributes:
        requests_per_second: of one replica, as the load test measures them; 0 leaves Knative its own target.
    """

    requests_per_second: float = 0.0


class Knative(KServe):
    """An InferenceService whose revisions share the requests."""

    splits = True
    modes = ("Knative", "Serverless")
    _settings: KnativeSettings

    def apply(self, split: Sequence[VersionShare]) -> None:
        """Bring the object there, one change after the other; see `ReleaseTarget`."""
        newest, percent = split[-1], _percent(split)
        service = self._find_standing() or self._create_first(split[0])
        if len(split) > 1 and _stable_version(service) != key(split[0]):
            self.apply(split[:1])
            service = self._await()
        service = self._await() if self._runs(service, newest) else self._change(service, newest, 0)
        if _canary_percent(service) == 0:
            check(newest, self._revision(service, newest))
        if _canary_percent(service) != percent:
            self._change(service, newest, percent)

    def serving(self) -> dict[int, float]:
        """Return what the object's status says of its revisions; see `ReleaseTarget`."""
        service = self._find()
        shares: dict[int, float] = {}
        for entry in _traffic(service) if service and _is_up(service) else ():
            version = int(entry["key"].partition(":")[0])
            shares[version] = shares.get(version, 0) + entry.get("percent", 0) / 100
        return {version: share for version, share in shares.items() if share}

    def ask(self, share: VersionShare) -> Any:
        """Ask a version's revision by its own URL; see `ReleaseTarget`."""
        return self._revision(self._await(), share)

    def _state(self, service: Object) -> tuple[bool, str]:
        return _is_up(service), _failure(service)

    def _find_standing(self) -> Object | None:
        """Return the object once it does not change any more, None when there is none, or only a first failure."""
        service, _ = self._await_settled()
        if service is None or _status(service).get("latestRolledoutRevision"):
            return service
        self._delete()
        return None

    def _create_first(self, share: VersionShare) -> Object:
        self._create(self._with_percent(share, {CHAMPION: key(share), REPLACES: ""}, None))
        return self._await()

    def _change(self, service: Object, share: VersionShare, percent: int | None) -> Object:
        # annotations are part of a revision, so with the same version they stay
        kept = {name: notes(service)[name] for name in (CHAMPION, REPLACES)}
        fresh = {CHAMPION: _stable_version(service), REPLACES: _status(service).get("latestCreatedRevision", "")}
        self._replace(service, self._with_percent(share, kept if self._runs(service, share) else fresh, percent))
        return self._await()

    def _revision(self, service: Object, share: VersionShare) -> Any:
        url = next(entry["url"] for entry in _traffic(service) if entry["key"] == key(share))
        return self._ask_url(url, share)

    def _predictor(self, share: VersionShare) -> Object:
        rate = self._settings.requests_per_second
        return super()._predictor(share) | ({"scaleMetric": "rps", "scaleTarget": max(1, round(rate))} if rate else {})

    def _with_percent(self, share: VersionShare, annotations: dict[str, str], percent: int | None) -> Object:
        predictor = {} if percent is None else {"canaryTrafficPercent": percent}
        return self._object(share, annotations | {f"{GROUP}/enable-tag-routing": "true"}, **predictor)


def _percent(split: Sequence[VersionShare]) -> int | None:
    return percents(split, "KServe")[-1] if len(split) > 1 else None


def _canary_percent(service: Object) -> int | None:
    percent: int | None = service["spec"]["predictor"].get("canaryTrafficPercent")
    return percent


def _stable_version(service: Object) -> str:
    """Return which version gets what the newest does not."""
    return notes(service)[NEWEST if _canary_percent(service) is None else CHAMPION]


def _status(service: Object) -> Object:
    status: Object = service.get("status", {}).get("components", {}).get("predictor", {})
    return status


def _traffic(service: Object) -> list[Object]:
    """Return what the status says of the revisions that get requests or have a URL, and which version each is."""
    annotations = notes(service)
    return [
        entry | {"key": annotations[NEWEST if entry.get("latestRevision") else CHAMPION]}
        for entry in _status(service).get("traffic", ())
    ]


def _is_new(service: Object) -> bool:
    """Return whether the status is about the newest version already."""
    created: str = _status(service).get("latestCreatedRevision", "")
    return created != notes(service).get(REPLACES)


def _is_up(service: Object) -> bool:
    status = _status(service)
    got = sum(entry.get("percent", 0) for entry in status.get("traffic", ()) if entry.get("latestRevision"))
    percent = _canary_percent(service)
    is_newest = status.get("latestReadyRevision") == status.get("latestCreatedRevision")
    return _is_new(service) and is_ready(service) and is_newest and got == (100 if percent is None else percent)


def _failure(service: Object) -> str:
    """Return why the newest version does not start; empty while it may, and when it has."""
    condition = conditions(service).get("PredictorConfigurationReady", {})
    if not _is_new(service) or condition.get("status") != "False":
        return ""
    return str(condition.get("message") or condition.get("reason") or "its revision failed")
