"""What happens to a new object before it is stored: defaults, and reasons to refuse it."""

import copy
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

from nightshift_testkit.cluster import quantities, security
from nightshift_testkit.cluster.kinds import (
    CLAIM,
    JOB,
    LIMITS,
    NAMESPACE,
    POD,
    PRIORITY,
    QUOTA,
    SERVICE_ACCOUNT,
    Json,
    ResourceKind,
)
from nightshift_testkit.cluster.problems import StatusError, forbidden, invalid, missing
from nightshift_testkit.cluster.store import ResourceStore

GRACE = 30
SYSTEM = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
ENDED = ("Succeeded", "Failed")
POLICIES = ("Always", "OnFailure", "Never")
NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
TOLERATED = 300  # seconds, of a node that is away
MATTERS = ("cpu", "memory", "ephemeral-storage")


def admit(store: ResourceStore, kind: ResourceKind, value: Json) -> Json:
    """Return an object as it is stored.

    Raises:
        StatusError: when it may not be.
    """
    done = copy.deepcopy(value)
    if kind.namespaced:
        _in_a_namespace(store, kind, done)
    if kind == POD:
        done = _pod(store, done)
    if kind == JOB and done["spec"]["template"]["spec"].get("restartPolicy", "Always") == "Always":
        why = 'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
        raise invalid(JOB, done["metadata"]["name"], why)
    if kind.namespaced:
        _within_quota(store, kind, done)
    return done


def _in_a_namespace(store: ResourceStore, kind: ResourceKind, value: Json) -> None:
    namespace = store.peek(NAMESPACE, value["metadata"]["namespace"])
    if namespace is None:
        raise missing(NAMESPACE, value["metadata"]["namespace"])
    if namespace["metadata"].get("deletionTimestamp"):
        name = namespace["metadata"]["name"]
        why = f"unable to create new content in namespace {name} because it is being terminated"
        raise forbidden(kind, value["metadata"]["name"], why)


def _pod(store: ResourceStore, pod: Json) -> Json:
    _readable(pod)
    # plugins fill in, then the API judges, then plugins do
    for _, container, item in _limits(store, pod):
        _filled(container, item)
    _checked(pod)
    for name, container, item in _limits(store, pod):
        _limited(name, container, item)
    _defaults(pod)
    _with_account(store, pod)
    _prioritized(store, pod)
    _secure(store, pod)
    pod["status"] = {"phase": "Pending", "qosClass": _quality(pod["spec"])}
    return pod


def _checked(pod: Json) -> None:
    """What the schemas do not say."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    if spec.get("restartPolicy", "Always") not in POLICIES:
        allowed = ", ".join(f'"{policy}"' for policy in POLICIES)
        raise invalid(
            POD, name, f'spec.restartPolicy: Unsupported value: "{spec["restartPolicy"]}": supported values: {allowed}'
        )
    volumes = {volume["name"] for volume in spec.get("volumes", [])}
    for i, container in enumerate(spec["containers"]):
        if not container.get("image"):
            raise invalid(POD, name, f"spec.containers[{i}].image: Required value")
        for j, mount in enumerate(container.get("volumeMounts", [])):
            if mount["name"] not in volumes:
                raise invalid(POD, name, f'spec.containers[{i}].volumeMounts[{j}].name: Not found: "{mount["name"]}"')
        _sensible(name, i, container.get("resources", {}))


def _readable(pod: Json) -> None:
    for at, container in enumerate(pod["spec"]["containers"]):
        for part in ("requests", "limits"):
            for resource, amount in container.get("resources", {}).get(part, {}).items():
                try:
                    quantities.number(amount)
                except ValueError as error:
                    raise StatusError(400, f"spec.containers[{at}].resources.{part}[{resource}]: {error}") from None


def _sensible(name: str, at: int, resources: Json) -> None:
    for resource, wanted in resources.get("requests", {}).items():
        limit = resources.get("limits", {}).get(resource)
        if limit is not None and quantities.number(wanted) > quantities.number(limit):
            field = f'spec.containers[{at}].resources.requests: Invalid value: "{wanted}"'
            raise invalid(POD, name, f"{field}: must be less than or equal to {resource} limit of {limit}")


def _limits(store: ResourceStore, pod: Json) -> Iterator[tuple[str, Json, Json]]:
    """Each container of a pod with each of its namespace's limits, by the pod's name."""
    for limits in store.select(LIMITS, pod["metadata"]["namespace"]):
        for item in limits["spec"]["limits"]:
            if item["type"] == "Container":
                yield from ((pod["metadata"]["name"], spec, item) for spec in security.containers(pod["spec"]))


def _filled(container: Json, item: Json) -> None:
    resources = container.setdefault("resources", {})
    resources["limits"] = item.get("default", {}) | resources.get("limits", {})
    # a limit of one's own is the request as well, before the namespace's
    resources["requests"] = item.get("defaultRequest", {}) | resources["limits"] | resources.get("requests", {})


def _limited(name: str, container: Json, item: Json) -> None:
    for word, part in (("max", "limits"), ("min", "requests")):
        for resource, bound in item.get(word, {}).items():
            _bounded(name, word, resource, bound, container["resources"][part].get(resource))


def _bounded(name: str, word: str, resource: str, bound: str, text: str | None) -> None:
    if text is None:
        what = "limit" if word == "max" else "request"
        raise forbidden(POD, name, f"{word}imum {resource} usage per Container is {bound}.  No {what} is specified")
    amount, edge = quantities.number(text), quantities.number(bound)
    if (amount > edge) if word == "max" else (amount < edge):
        what = "limit" if word == "max" else "request"
        raise forbidden(POD, name, f"{word}imum {resource} usage per Container is {bound}, but {what} is {text}")


def _defaults(pod: Json) -> None:
    spec = pod["spec"]
    plain = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": GRACE,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "enableServiceLinks": True,
    }
    pod["spec"] = spec = plain | spec
    for container in security.containers(spec):
        image = container["image"]
        newest = image.endswith(":latest") or ":" not in image.rpartition("/")[2]
        container.setdefault("imagePullPolicy", "Always" if newest else "IfNotPresent")
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        resources = container.setdefault("resources", {})
        if limits := resources.get("limits"):
            resources["requests"] = limits | resources.get("requests", {})
    known = {taint.get("key") for taint in spec.setdefault("tolerations", [])}
    for key in NOT_READY:
        if key not in known:
            toleration = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED}
            spec["tolerations"].append(toleration)


def _with_account(store: ResourceStore, pod: Json) -> None:
    spec, meta = pod["spec"], pod["metadata"]
    name = spec.setdefault("serviceAccountName", spec.get("serviceAccount", "default"))
    spec["serviceAccount"] = name
    if store.peek(SERVICE_ACCOUNT, name, meta["namespace"]) is None:
        why = f'error looking up service account {meta["namespace"]}/{name}: serviceaccount "{name}" not found'
        raise forbidden(POD, meta["name"], why)


def _prioritized(store: ResourceStore, pod: Json) -> None:
    name = pod["spec"].get("priorityClassName")
    classes = {item["metadata"]["name"]: item for item in store.select(PRIORITY)}
    if name is None:
        name = next((key for key, item in classes.items() if item.get("globalDefault")), None)
    if name and name not in classes | SYSTEM:
        raise forbidden(POD, pod["metadata"]["name"], f"no PriorityClass with name {name} was found")
    if name:
        pod["spec"]["priorityClassName"] = name
    pod["spec"]["priority"] = SYSTEM.get(name or "", classes.get(name, {}).get("value", 0))


def _secure(store: ResourceStore, pod: Json) -> None:
    namespace = store.peek(NAMESPACE, pod["metadata"]["namespace"])
    assert namespace
    level = namespace["metadata"].get("labels", {}).get(security.LABEL, "privileged")
    if violated := security.violations(level, pod["spec"]):
        raise forbidden(POD, pod["metadata"]["name"], f'violates PodSecurity "{level}:latest": {", ".join(violated)}')


def _quality(spec: Json) -> str:
    resources = [container.get("resources", {}) for container in security.containers(spec)]
    if not any(part.get("requests") or part.get("limits") for part in resources):
        return "BestEffort"
    full = all({"cpu", "memory"} <= part.get("limits", {}).keys() for part in resources)
    same = all(
        part.get("requests", {}).get(name) == part["limits"][name]
        for part in resources
        for name in part.get("limits", {})
    )
    return "Guaranteed" if full and same else "Burstable"


def requests(spec: Json, part: str = "requests") -> Counter[str]:
    """What a pod takes of a node: the sum of its containers, or its largest init container."""
    total: Counter[str] = Counter()
    for container in spec["containers"]:
        for name, amount in container.get("resources", {}).get(part, {}).items():
            total[name] += quantities.number(amount)
    for container in spec.get("initContainers", []):
        for name, amount in container.get("resources", {}).get(part, {}).items():
            total[name] = max(total[name], quantities.number(amount))
    return total


def used(kind: ResourceKind, value: Json) -> dict[str, Decimal]:
    """What an object takes of a quota."""
    amounts = {f"count/{kind.resource}": Decimal(1), kind.plural: Decimal(1)}
    if kind == POD:
        if value.get("status", {}).get("phase") in ENDED:
            return {f"count/{kind.resource}": Decimal(1)}
        requested, limits = requests(value["spec"]), requests(value["spec"], "limits")
        amounts |= {f"requests.{name}": Decimal(amount) for name, amount in requested.items()}
        amounts |= {name: Decimal(amount) for name, amount in requested.items() if name in MATTERS}
        amounts |= {f"limits.{name}": Decimal(amount) for name, amount in limits.items()}
    elif kind == CLAIM:
        amounts["requests.storage"] = quantities.number(value["spec"]["resources"]["requests"]["storage"])
    elif kind.plural == "services":
        typed = value["spec"].get("type")
        amounts["services.loadbalancers"] = Decimal(typed == "LoadBalancer")
        amounts["services.nodeports"] = Decimal(typed in ("LoadBalancer", "NodePort"))
    return amounts


def _within_quota(store: ResourceStore, kind: ResourceKind, value: Json) -> None:
    namespace, name = value["metadata"]["namespace"], value["metadata"]["name"]
    additional = used(kind, value)
    for quota in store.select(QUOTA, namespace):
        hard = {key: quantities.number(amount) for key, amount in quota["spec"].get("hard", {}).items()}
        if kind == POD:
            _specified(quota, hard, value)
        over = _over(hard, additional, usage(store, namespace))
        if over:
            wanted, current, most = (
                ",".join(f"{key}={quantities.text(row[i])}" for key, row in over.items()) for i in range(3)
            )
            title = quota["metadata"]["name"]
            raise forbidden(
                kind, name, f"exceeded quota: {title}, requested: {wanted}, used: {current}, limited: {most}"
            )


def _specified(quota: Json, hard: dict[str, Decimal], pod: Json) -> None:
    """A quota on CPU or memory wants every container to say how much it takes."""
    absent = [
        f"{key} for: {container['name']}"
        for container in security.containers(pod["spec"])
        for key in sorted(hard)
        if (path := key.split(".") if "." in key else ["requests", key])[-1] in MATTERS
        and path[-1] not in container.get("resources", {}).get(path[0], {})
    ]
    if absent:
        why = f"failed quota: {quota['metadata']['name']}: must specify {', '.join(absent)}"
        raise forbidden(POD, pod["metadata"]["name"], why)


def _over(
    hard: dict[str, Decimal], wanted: dict[str, Decimal], current: Counter[str]
) -> dict[str, tuple[Decimal, ...]]:
    return {
        key: (wanted[key], Decimal(current[key]), most)
        for key, most in sorted(hard.items())
        if wanted.get(key) and wanted[key] + current[key] > most
    }


def usage(store: ResourceStore, namespace: str) -> Counter[str]:
    """What all objects of a namespace take."""
    total: Counter[str] = Counter()
    for kind in store.kinds():
        for value in store.select(kind, namespace):
            if kind.namespaced:
                for key, amount in used(kind, value).items():
                    total[key] += amount
    return total
