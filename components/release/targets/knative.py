"""KServe on Knative, where revisions can share the requests.

The object holds the newest version and the percentage of the requests that it gets; the rest goes to the revision that
had all of them last. A new version comes in at 0 % and is asked first, so no request reaches one that is not ready or
not right.
"""

from collections.abc import Sequence
from typing import Any

from components.release.targets import Part, check, percents
from components.release.targets.kserve import GROUP, NEWEST, REPLACES, KServe, Object, conditions, is_ready, key, notes

CHAMPION = "nightshift/champion"


class Knative(KServe):
    """An InferenceService whose revisions share the requests."""

    splits = True
    modes = ("Knative", "Serverless")

    def apply(self, parts: Sequence[Part]) -> None:
        """Bring the object there, one change after the other; see `Target`."""
        newest, percent = parts[-1], _percent(parts)
        found = self._standing() or self._created(parts[0])
        if len(parts) > 1 and _rolled_out(found) != key(parts[0]):
            self.apply(parts[:1])
            found = self._await()
        found = self._await() if self._runs(found, newest) else self._changed(found, newest, 0)
        if _given(found) == 0:
            check(newest, self._revision(found, newest))
        if _given(found) != percent:
            self._changed(found, newest, percent)

    def serving(self) -> dict[int, float]:
        """Return what the object's status says of its revisions; see `Target`."""
        found = self._find()
        shares: dict[int, float] = {}
        for each in _traffic(found) if found and _is_up(found) else ():
            version = int(each["key"].partition(":")[0])
            shares[version] = shares.get(version, 0) + each.get("percent", 0) / 100
        return {version: share for version, share in shares.items() if share}

    def ask(self, part: Part) -> Any:
        """Ask a version's revision by its own URL; see `Target`."""
        return self._revision(self._await(), part)

    def _state(self, found: Object) -> tuple[bool, str]:
        return _is_up(found), _failure(found)

    def _standing(self) -> Object | None:
        """Return the object once it does not change any more, None when there is none, or only a first failure."""
        found, _ = self._settled()
        if found is None or _status(found).get("latestRolledoutRevision"):
            return found
        self._delete()
        return None

    def _created(self, part: Part) -> Object:
        self._create(self._split(part, {CHAMPION: key(part), REPLACES: ""}, None))
        return self._await()

    def _changed(self, found: Object, part: Part, percent: int | None) -> Object:
        # annotations are part of a revision, so with the same version they stay
        kept = {name: notes(found)[name] for name in (CHAMPION, REPLACES)}
        fresh = {CHAMPION: _rolled_out(found), REPLACES: _status(found).get("latestCreatedRevision", "")}
        self._replace(found, self._split(part, kept if self._runs(found, part) else fresh, percent))
        return self._await()

    def _revision(self, found: Object, part: Part) -> Any:
        url = next(each["url"] for each in _traffic(found) if each["key"] == key(part))
        return self._asked(url, part)

    def _split(self, part: Part, annotations: dict[str, str], percent: int | None) -> Object:
        given = {} if percent is None else {"canaryTrafficPercent": percent}
        return self._object(part, annotations | {f"{GROUP}/enable-tag-routing": "true"}, **given)


def _percent(parts: Sequence[Part]) -> int | None:
    return percents(parts, "KServe")[-1] if len(parts) > 1 else None


def _given(found: Object) -> int | None:
    percent: int | None = found["spec"]["predictor"].get("canaryTrafficPercent")
    return percent


def _rolled_out(found: Object) -> str:
    """Return which version gets what the newest does not."""
    return notes(found)[NEWEST if _given(found) is None else CHAMPION]


def _status(found: Object) -> Object:
    status: Object = found.get("status", {}).get("components", {}).get("predictor", {})
    return status


def _traffic(found: Object) -> list[Object]:
    """Return what the status says of the revisions that get requests or have a URL, and which version each is."""
    annotations = notes(found)
    return [
        each | {"key": annotations[NEWEST if each.get("latestRevision") else CHAMPION]}
        for each in _status(found).get("traffic", ())
    ]


def _is_new(found: Object) -> bool:
    """Return whether the status is about the newest version already."""
    created: str = _status(found).get("latestCreatedRevision", "")
    return created != notes(found).get(REPLACES)


def _is_up(found: Object) -> bool:
    status = _status(found)
    got = sum(each.get("percent", 0) for each in status.get("traffic", ()) if each.get("latestRevision"))
    given = _given(found)
    is_newest = status.get("latestReadyRevision") == status.get("latestCreatedRevision")
    return _is_new(found) and is_ready(found) and is_newest and got == (100 if given is None else given)


def _failure(found: Object) -> str:
    """Return why the newest version does not start; empty while it may, and when it has."""
    condition = conditions(found).get("PredictorConfigurationReady", {})
    if not _is_new(found) or condition.get("status") != "False":
        return ""
    return str(condition.get("message") or condition.get("reason") or "its revision failed")
