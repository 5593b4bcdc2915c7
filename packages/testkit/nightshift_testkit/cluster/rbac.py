"""Who may do what, decided from the roles and bindings that the server holds."""

from collections.abc import Iterator
from dataclasses import dataclass

from nightshift_testkit.cluster import selectors
from nightshift_testkit.cluster.kinds import BINDING, CLUSTER_BINDING, CLUSTER_ROLE, ROLE, Json
from nightshift_testkit.cluster.problems import StatusError
from nightshift_testkit.cluster.store import ResourceStore

MASTERS = "system:masters"


@dataclass(frozen=True)
class User:
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()

    @classmethod
    def account(cls, namespace: str, name: str) -> "User":
        """A service account."""
        everyone = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return cls(f"system:serviceaccount:{namespace}:{name}", everyone)


ADMIN = User("kubernetes-admin", (MASTERS, "system:authenticated"))


@dataclass(frozen=True)
class AccessRequest:
    """What is asked for; `resource` has its subresource behind a slash."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


def authorize(store: ResourceStore, user: User, action: AccessRequest) -> None:
    """Let a user do something.

    Raises:
        StatusError: 403.
    """
    if not allowed(store, user, action):
        plural = action.resource.partition("/")[0]
        named = f"{plural}.{action.group}" if action.group else plural
        named += f' "{action.name}"' if action.name else ""
        where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
        what = f'cannot {action.verb} resource "{action.resource}" in API group "{action.group}" {where}'
        raise StatusError(403, f'{named} is forbidden: User "{user.name}" {what}')


def allowed(store: ResourceStore, user: User, action: AccessRequest) -> bool:
    return MASTERS in user.groups or any(_grants(rule, action) for rule in _rules(store, user, action.namespace))


def _rules(store: ResourceStore, user: User, namespace: str) -> Iterator[Json]:
    bindings = list(store.select(CLUSTER_BINDING))
    if namespace:
        bindings += store.select(BINDING, namespace)
    for binding in bindings:
        if any(_is(subject, user, binding) for subject in binding.get("subjects", [])):
            yield from _granted(store, binding)


def _is(subject: Json, user: User, binding: Json) -> bool:
    if subject["kind"] == "ServiceAccount":
        namespace = subject.get("namespace", binding["metadata"].get("namespace"))
        return user.name == f"system:serviceaccount:{namespace}:{subject['name']}"
    return subject["name"] in ((user.name,) if subject["kind"] == "User" else user.groups)


def _granted(store: ResourceStore, binding: Json) -> Iterator[Json]:
    wanted = binding["roleRef"]
    if wanted["kind"] == "Role":
        role = store.peek(ROLE, wanted["name"], binding["metadata"]["namespace"])
    else:
        role = store.peek(CLUSTER_ROLE, wanted["name"])
    if role:
        yield from role.get("rules") or []
        for selector in role.get("aggregationRule", {}).get("clusterRoleSelectors", []):
            for other in store.select(CLUSTER_ROLE):
                if selectors.fits(other["metadata"].get("labels", {}), selector):
                    yield from other.get("rules") or []


def _grants(rule: Json, action: AccessRequest) -> bool:
    plural, _, part = action.resource.partition("/")
    wildcards = {"*", action.resource, f"*/{part}"} if part else {"*", plural}
    return (
        bool({"*", action.verb} & set(rule.get("verbs", [])))
        and bool({"*", action.group} & set(rule.get("apiGroups", [])))
        and bool(wildcards & set(rule.get("resources", [])))
        and (not rule.get("resourceNames") or action.name in rule["resourceNames"])
    )
