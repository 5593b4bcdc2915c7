"""KServe: an InferenceService named after the use case, on Knative, where its revisions can share the requests.

The object holds the newest version and the percentage of the requests that it gets; the rest goes to the revision that
had all of them last. A new version comes in at 0 % and is asked first, so no request reaches one that is not ready or
not right. In mode Standard, plain Deployments, KServe knows no percentage, and such an object is refused.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from components.common.errors import UnavailableError, UserError, may_pass
from components.release.targets import Part, check, holds

GROUP, VERSION, PLURAL = "serving.kserve.io", "v1beta1", "inferenceservices"
OWNER, NEWEST, CHAMPION, REPLACES = (f"nightshift/{word}" for word in ("use-case", "newest", "champion", "replaces"))
MODES = ("Knative", "Serverless")
PORT, TOKEN = 8080, "/etc/nightshift/token"
POLL_SECONDS, POLLS = 5.0, 240

Object = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where the object lies and what its containers run.

    Attributes:
        namespace: of the object.
        image: of `containers/serving`.
        account: the service account, which may read the registry.
        secret: a Secret whose key `token` holds the bearer token of requests.
        replicas: at least; 0 lets a version that gets no requests go.
    """

    namespace: str
    image: str
    account: str
    secret: str
    replicas: int = 1


class KServe:
    """The InferenceService of a use case."""

    splits = True

    def __init__(
        self,
        name: str,
        place: Place,
        api: Any,
        ask: Callable[[str, bytes], bytes],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Call nothing.

        Args:
            name: the use case.
            place: where.
            api: `kubernetes.client.CustomObjectsApi`.
            ask: posts a body to a URL, with the token, and returns the answer's.
            pause: called with the seconds between two looks.
        """
        self._name, self._place, self._api = name, place, api
        self._ask, self._pause = ask, pause

    def apply(self, parts: Sequence[Part]) -> None:
        """Bring the object there, one change after the other; see `Target`."""
        newest, percent = parts[-1], _percent(parts)
        found = self._standing() or self._created(parts[0])
        if len(parts) > 1 and _rolled_out(found) != _key(parts[0]):
            self.apply(parts[:1])
            found = self._await()
        found = self._await() if self._runs(found, newest) else self._changed(found, newest, 0)
        if _given(found) == 0:
            check(newest, self._asked(found, newest))
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
        return self._asked(self._await(), part)

    def measured(self, *_: object) -> None:
        """Say nothing: KServe keeps no figures of a revision's requests; see `Target`."""

    def clean(self, parts: Sequence[Part]) -> None:
        """Delete the object when nothing is wanted; Knative removes revisions that get no requests; see `Target`."""
        if not parts and self._find():
            self._delete()

    def _standing(self) -> Object | None:
        """Return the object once it does not change any more, None when there is none, or only a first failure."""
        found = self._settled()
        if found is None or _status(found).get("latestRolledoutRevision"):
            return found
        self._delete()
        return None

    def _settled(self) -> Object | None:
        for _ in range(POLLS):
            found = self._find()
            if found is None or _is_up(found) or _failure(found):
                return found
            self._pause(POLL_SECONDS)
        raise UnavailableError(
            f"InferenceService {self._name!r} does not become ready; look at its events, run it again"
        )

    def _await(self) -> Object:
        """Return the object once its newest version is ready.

        Raises:
            UserError: when that does not start.
        """
        found = self._settled()
        if found is None:
            raise UnavailableError(f"InferenceService {self._name!r} was deleted meanwhile; run it again")
        if why := _failure(found):
            raise UserError(f"InferenceService {self._name!r} does not serve {_notes(found)[NEWEST]}: {why}")
        return found

    def _find(self) -> Object | None:
        """Return the object, None when there is none.

        Raises:
            UserError: when it is not ours.
        """
        try:
            found: Object = self._call("get", name=self._name)
        except _MissingError:
            return None
        if _notes(found).get(OWNER) != self._name:
            raise UserError(
                f"InferenceService {self._name!r} exists and has no annotation {OWNER}={self._name}; delete it, or "
                "give the use case another name"
            )
        mode = found.get("status", {}).get("deploymentMode", MODES[0])
        if mode not in MODES:
            raise UserError(f"InferenceService {self._name!r} is in mode {mode}; a release needs {MODES[0]}")
        return found

    def _created(self, part: Part) -> Object:
        self._call("create", body=self._object(part, {CHAMPION: _key(part), REPLACES: ""}, None))
        return self._await()

    def _changed(self, found: Object, part: Part, percent: int | None) -> Object:
        """Write the object; it is refused when it is not what was read any more."""
        # annotations are part of a revision, so with the same version they stay
        kept = {name: _notes(found)[name] for name in (CHAMPION, REPLACES)}
        fresh = {CHAMPION: _rolled_out(found), REPLACES: _status(found).get("latestCreatedRevision", "")}
        body = self._object(part, kept if self._runs(found, part) else fresh, percent)
        body["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        self._call("replace", name=self._name, body=body)
        return self._await()

    def _delete(self) -> None:
        self._call("delete", name=self._name)
        while self._find():
            self._pause(POLL_SECONDS)

    def _runs(self, found: Object, part: Part) -> bool:
        """Return whether a version is the newest of an object, as we would have it."""
        return _notes(found)[NEWEST] == _key(part) and holds(found["spec"]["predictor"], self._predictor(part))

    def _asked(self, found: Object, part: Part) -> Any:
        url = next(each["url"] for each in _traffic(found) if each["key"] == _key(part))
        return json.loads(self._ask(f"{url}/score", json.dumps(part.request).encode()))

    def _object(self, part: Part, notes: dict[str, str], percent: int | None) -> Object:
        modes = {f"{GROUP}/deploymentMode": MODES[0], f"{GROUP}/enable-tag-routing": "true"}
        given = {} if percent is None else {"canaryTrafficPercent": percent}
        return {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "InferenceService",
            "metadata": {
                "name": self._name,
                "namespace": self._place.namespace,
                "annotations": {OWNER: self._name, NEWEST: _key(part)} | notes | modes,
            },
            "spec": {"predictor": self._predictor(part) | given},
        }

    def _predictor(self, part: Part) -> Object:
        flags = {"model": part.version.uri, "name": self._name, "host": "0.0.0.0", "port": PORT, "token-file": TOKEN}  # noqa: S104
        container = {
            "name": "kserve-container",
            "image": self._place.image,
            "command": ["python", "-m", "components.serving"],
            "args": [str(word) for name, value in flags.items() for word in (f"--{name}", value)],
            "ports": [{"containerPort": PORT, "protocol": "TCP"}],
            "readinessProbe": {"httpGet": {"path": "/v2/health/ready", "port": PORT}},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "token", "mountPath": TOKEN.rpartition("/")[0], "readOnly": True}],
        }
        return {
            "minReplicas": self._place.replicas,
            "serviceAccountName": self._place.account,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [{"name": "token", "secret": {"secretName": self._place.secret}}],
            "containers": [container],
        }

    def _call(self, verb: str, **given: Any) -> Any:
        """Call Kubernetes.

        Raises:
            UserError: when it refuses.
            UnavailableError: when it does not answer, or somebody else has changed the object meanwhile.
        """
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        place = {"group": GROUP, "version": VERSION, "namespace": self._place.namespace, "plural": PLURAL}
        try:
            return getattr(self._api, f"{verb}_namespaced_custom_object")(**place, **given)
        except ApiException as error:
            if error.status == HTTPStatus.NOT_FOUND and self._name in str(error.body):
                raise _MissingError(self._name) from None
            said = f"Kubernetes refuses to {verb} InferenceService {self._name!r}: {error.reason}; {error.body}"
            if error.status == HTTPStatus.CONFLICT or may_pass(error.status):
                raise UnavailableError(f"{said}; run it again") from None
            raise UserError(said) from None
        except HTTPError as error:
            raise UnavailableError(f"Kubernetes does not answer: {error}; run it again") from None


class _MissingError(UserError):
    """What was asked for is not there."""


def _key(part: Part) -> str:
    return f"{part.version.version}:{part.version.sha256}"


def _percent(parts: Sequence[Part]) -> int | None:
    if len(parts) == 1:
        return None
    percent = round(parts[-1].traffic * 100)
    if not math.isclose(percent, parts[-1].traffic * 100):
        raise UserError(f"release.shares holds {parts[-1].traffic}; KServe takes whole percentages, such as 0.05")
    return percent


def _notes(found: Object) -> dict[str, str]:
    notes: dict[str, str] = found["metadata"].get("annotations", {})
    return notes


def _given(found: Object) -> int | None:
    percent: int | None = found["spec"]["predictor"].get("canaryTrafficPercent")
    return percent


def _rolled_out(found: Object) -> str:
    """Return which version gets what the newest does not."""
    return _notes(found)[NEWEST if _given(found) is None else CHAMPION]


def _status(found: Object) -> Object:
    status: Object = found.get("status", {}).get("components", {}).get("predictor", {})
    return status


def _traffic(found: Object) -> list[Object]:
    """Return what the status says of the revisions that get requests or have a URL, and which version each is."""
    notes = _notes(found)
    return [
        each | {"key": notes[NEWEST if each.get("latestRevision") else CHAMPION]}
        for each in _status(found).get("traffic", ())
    ]


def _conditions(found: Object) -> dict[str, Object]:
    return {each["type"]: each for each in found.get("status", {}).get("conditions", ())}


def _is_new(found: Object) -> bool:
    """Return whether the status is about the newest version already."""
    created: str = _status(found).get("latestCreatedRevision", "")
    return created != _notes(found).get(REPLACES)


def _is_up(found: Object) -> bool:
    status, is_ready = _status(found), _conditions(found).get("Ready", {}).get("status") == "True"
    got = sum(each.get("percent", 0) for each in status.get("traffic", ()) if each.get("latestRevision"))
    given = _given(found)
    is_newest = status.get("latestReadyRevision") == status.get("latestCreatedRevision")
    return _is_new(found) and is_ready and is_newest and got == (100 if given is None else given)


def _failure(found: Object) -> str:
    """Return why the newest version does not start; empty while it may, and when it has."""
    condition = _conditions(found).get("PredictorConfigurationReady", {})
    if not _is_new(found) or condition.get("status") != "False":
        return ""
    return str(condition.get("message") or condition.get("reason") or "its revision failed")
