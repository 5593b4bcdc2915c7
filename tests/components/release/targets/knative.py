"""What KServe and Knative do with an InferenceService, as far as revisions and their shares go.

Read off KServe 0.18's `ksvc_reconciler.go` (traffic) and `inference_service_status.go` (what was rolled out last): an
object's annotations are part of a revision, a percentage counts only once a revision has had all requests, and the
newest revision gets its share only when it is ready; until then the newest ready one does.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from components.release.targets.knative import Knative, KnativeSettings
from tests.cluster.kinds import Json
from tests.components.release.targets.kserve import EXTENSION, Controllers, number, uri
from tests.components.release.targets.versions import Fleet


class KnativeControllers(Controllers):
    """A revision is made at one look, and ready or failed at the next."""

    kind = Knative
    settings = KnativeSettings("nightshift", "registry.example.com/nightshift/serving:0.3.0", "serving", "token")
    other_mode = "Standard"
    asks_first = True
    percentages = "KServe"
    failure = "exited with code 2"

    def __init__(self, *cluster: Any) -> None:
        super().__init__(*cluster)
        self._revisions: list[tuple[str, Json]] = []  # name and template, of all objects' all revisions

    def pass_time(self, _: float) -> None:
        for value in self.objects:
            self.say(value, self._reconciled(value))

    def shares(self) -> dict[int, float]:
        shares: dict[int, float] = {}
        for value in self.objects:
            for target in value.get("status", {}).get("components", {}).get("predictor", {}).get("traffic", ()):
                version = self._version(target["revisionName"])
                shares[version] = shares.get(version, 0) + target["percent"] / 100
        return {version: share for version, share in shares.items() if share}

    def ask(self, url: str, body: bytes) -> bytes:
        """Answer for the revision of a URL; the one of a tag answers for the revision that has it now."""
        revision = url.removeprefix("http://").partition(".")[0]
        return self.fleet.answer(uri(dict(self._revisions)[revision]["spec"]), body)

    def _version(self, revision: str) -> int:
        return number(uri(dict(self._revisions)[revision]["spec"]))

    def _reconciled(self, value: Json) -> Json:
        status = copy.deepcopy(value.get("status", {}).get("components", {}).get("predictor", {}))
        template = _template(value)
        created = status.get("latestCreatedRevision")
        if created is None or dict(self._revisions)[created] != template:
            created = f"{value['metadata']['name']}-{len(self._revisions):05}"
            self._revisions.append((created, template))
            # nothing is known of it yet
            return _status(value, status | {"latestCreatedRevision": created}, "Unknown")
        spec = {name: part for name, part in template["spec"].items() if name not in EXTENSION}
        refusal = self.refusal(spec)
        starts = not refusal and self.fleet.starts(uri(spec))
        if starts:
            status["latestReadyRevision"] = created
        status["traffic"] = _split(value, status)
        if any(share["latestRevision"] and share["percent"] == 100 for share in status["traffic"]) and starts:
            status["latestRolledoutRevision"] = created
        message = refusal or "Container failed with: the container exited with code 2."
        return _status(
            value, status, "True" if starts else "False", f'Revision "{created}" failed with message: {message}'
        )


def _template(value: Json) -> Json:
    spec = {name: part for name, part in value["spec"]["predictor"].items() if name != "canaryTrafficPercent"}
    return {"spec": spec, "annotations": value["metadata"]["annotations"]}


def _split(value: Json, status: Json) -> list[Json]:
    ready, rolled_out = status.get("latestReadyRevision"), status.get("latestRolledoutRevision")
    if ready is None:
        return []
    percent = value["spec"]["predictor"].get("canaryTrafficPercent")
    percent = 100 if percent is None or rolled_out is None else percent
    newest = _target(ready, percent, "latest", is_latest=True)
    return [newest] if percent == 100 else [newest, _target(rolled_out, 100 - percent, "prev", is_latest=False)]


def _target(revision: str, percent: int, tag: str, is_latest: bool) -> Json:
    url = f"http://{revision}.example.com"
    return {"revisionName": revision, "percent": percent, "tag": tag, "latestRevision": is_latest, "url": url}


def _status(value: Json, predictor: Json, ready: str, message: str = "") -> Json:
    conditions = [{"type": kind, "status": ready} for kind in ("Ready", "PredictorConfigurationReady")]
    if ready == "False":
        conditions[1]["message"] = message
    done: Json = {"deploymentMode": "Knative", "conditions": conditions, "components": {"predictor": predictor}}
    return done


@contextmanager
def platform(fleet: Fleet, folder: Path) -> Iterator[KnativeControllers]:
    """A cluster with KServe on Knative, and nothing served."""
    with KnativeControllers.running(fleet, folder) as controllers:
        yield controllers
