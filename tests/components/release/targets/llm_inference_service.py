"""What KServe does with LLMInferenceServices, as far as pods, routing groups and their weights go.

Read off KServe 0.20's `workload_single_node.go` and `router_group.go`: a Deployment a service, and in the status of
each member of a group the weights of all of them. The definition in `definitions/` holds the fields that we use.
"""

import copy
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from components.release.targets.kserve import OWNER
from components.release.targets.llm_inference_service import Connections, LLMInferenceServices, LLMSettings
from nightshift_testkit.cluster.kinds import DEPLOYMENT, Json
from nightshift_testkit.cluster.operations import condition
from tests.components.release.targets.kserve import Controllers
from tests.components.release.targets.platform import Platform
from tests.components.release.targets.versions import TEXTS, Fleet

GATEWAY = "http://gateway.example.com/nightshift"


class GroupControllers(Controllers):
    """Pods are made at one look, and ready or failed at the next; a weight counts from the next look on."""

    kinds = (TEXTS,)
    settings = LLMSettings("nightshift", "registry.example.com/vllm:0.11.0", "serving", "token")
    crds = Path(__file__).parent / "definitions"
    plural = "llminferenceservices"
    asks_first = True
    share_calls = 2  # one a version
    failure = "has timed out progressing"
    late = "'fraud-1' does not become ready"
    many = True
    command = Platform.command  # vLLM's is KServe's

    def __init__(self, fleet: Fleet, *cluster: Any) -> None:
        super().__init__(fleet.select_kind(TEXTS), *cluster)
        self._known: dict[str, Json] = {}  # the specs of the pods that were made, by their object

    def waiting(  # type: ignore[override]
        self, pause: Callable[[float], None], name: str = "fraud", **settings: Any
    ) -> LLMInferenceServices:
        fields = vars(self.settings) | settings
        return LLMInferenceServices(name, LLMSettings(**fields), Connections(self._calls, self.ask, pause))

    def pass_time(self, _: float) -> None:
        for value in self.objects:
            self.say(value, self._reconciled(value))

    def shares(self) -> dict[int, float]:
        weights = next(iter(self._weights("fraud").values()), {})
        return {int(name.rpartition("-")[2]): weight / sum(weights.values()) for name, weight in weights.items()}

    def versions(self) -> set[int]:
        return {int(name_of(value).rpartition("-")[2]) for value in self.objects if group_of(value) == "fraud"}

    def ask(self, url: str, body: bytes) -> bytes:
        """Answer with log-probabilities of which follows what the version's server scores."""
        name = url.removeprefix(f"{GATEWAY}/").removesuffix("/v1/completions")
        (value,) = [value for value in self.objects if name_of(value) == name]
        text = json.loads(body)["prompt"]
        request = json.dumps({"instances": [{"text": text}]}).encode()
        answer = self.fleet.answer(value["spec"]["model"]["uri"], request)
        if not answer.startswith(b"{"):
            return answer
        bits = json.loads(answer)["predictions"][0]["score"] * len(text.encode())
        tokens = [None, -bits * math.log(2) - 1, 1, -0.3]  # the last one is new
        return json.dumps({"choices": [{"logprobs": {"token_logprobs": tokens}}]}).encode()

    def edit(self, edit: Callable[[Json], None]) -> None:
        for value in self.objects:
            self.api.operations.change(self.services, name_of(value), edit, "nightshift")

    def intrude(self) -> None:
        self.edit(lambda value: value["spec"].update(replicas=3))

    @property
    def foreign(self) -> Sequence[tuple[Callable[[], None], str]]:
        def disown() -> None:
            self.edit(lambda value: value["metadata"]["annotations"].pop(OWNER))

        return ((disown, "'fraud-1' .*has no annotation nightshift/use-case=fraud"),)

    def clear(self) -> None:
        super().clear()
        for deployment in self.api.store.copies(DEPLOYMENT, "nightshift"):
            self.api.operations.delete(DEPLOYMENT, name_of(deployment), "nightshift")

    def saved(self) -> Callable[[], None]:
        objects = self.objects

        def restore() -> None:
            self.clear()
            for value in copy.deepcopy(objects):
                value.pop("status", None)
                self.api.store.add(self.services, value)
            for _ in objects:
                self.pass_time(0)

        return restore

    def _reconciled(self, value: Json) -> Json:
        name, uid, spec = name_of(value), value["metadata"]["uid"], copy.deepcopy(value["spec"])
        spec["router"]["route"].pop("weight")
        if self._known.get(uid) != spec:
            self._known[uid] = spec
            self._deploy(value)
            return value.get("status", {})
        message = self.refusal(spec["template"])
        starts = not message and self.fleet.starts(spec["model"]["uri"])
        self.api.operations.change(
            DEPLOYMENT, f"{name}-kserve", lambda deployment: progress(deployment, starts, message), "nightshift"
        )
        return {
            "observedGeneration": value["metadata"]["generation"],
            "conditions": [{"type": "Ready", "status": str(starts)}],
            "url": f"{GATEWAY}/{name}",
            "router": {"group": {"name": group_of(value), "members": self._members(group_of(value))}},
        }

    def _deploy(self, value: Json) -> None:
        name = f"{name_of(value)}-kserve"
        if self.api.store.peek(DEPLOYMENT, name, "nightshift"):
            self.api.operations.delete(DEPLOYMENT, name, "nightshift")  # the Deployment of the pods before these
        owner = {"apiVersion": value["apiVersion"], "kind": value["kind"], "name": name_of(value)}
        meta = {"name": name, "ownerReferences": [owner | {"uid": value["metadata"]["uid"]}]}
        labels, container = {"app.kubernetes.io/name": name}, {"name": "main", "image": self.settings.image}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        self.api.operations.create(DEPLOYMENT, {"metadata": meta, "spec": spec}, "nightshift")

    def _members(self, group: str) -> list[Json]:
        return [
            {"name": name_of(value), "weight": value["spec"]["router"]["route"]["weight"]}
            for value in self.objects
            if group_of(value) == group
        ]

    def _weights(self, group: str) -> dict[str, dict[str, int]]:
        """What the status of each member says of all of them, without those that have no weight."""
        statuses = {
            name_of(value): value.get("status", {}).get("router", {}).get("group", {}).get("members", [])
            for value in self.objects
            if group_of(value) == group
        }
        return {
            name: {member["name"]: member["weight"] for member in members if member["weight"]}
            for name, members in statuses.items()
        }


def name_of(value: Json) -> str:
    return str(value["metadata"]["name"])


def group_of(value: Json) -> str:
    return str(value["spec"]["router"]["route"]["group"])


def progress(deployment: Json, starts: bool, refusal: str) -> None:
    """Say how far the pods of a Deployment are."""
    condition(deployment, "ReplicaFailure", str(bool(refusal)), "FailedCreate", refusal)
    if starts:
        condition(deployment, "Progressing", "True", "NewReplicaSetAvailable")
    else:
        message = f'ReplicaSet "{name_of(deployment)}-0" has timed out progressing.'
        condition(deployment, "Progressing", "False", "ProgressDeadlineExceeded", message)


@contextmanager
def platform(fleet: Fleet, folder: Path) -> Iterator[GroupControllers]:
    """A cluster with KServe's LLMInferenceServices, and nothing served; the Deployments' controller is a stand-in."""
    with GroupControllers.running(fleet, folder, acts=False) as controllers:
        yield controllers
