"""Pod Security Standards: what a namespace's label enforces."""

from collections.abc import Callable, Iterator

from nightshift_testkit.cluster.kinds import Json

LABEL = "pod-security.kubernetes.io/enforce"
# those the baseline lets a container add
CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip
SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
}  # fmt: skip
VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
SECCOMP = ("RuntimeDefault", "Localhost")
PROFILE = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'


def containers(spec: Json) -> list[Json]:
    """All of a pod's containers."""
    return [*spec.get("initContainers", []), *spec["containers"]]


def violations(level: str, spec: Json) -> list[str]:
    """What of a pod a level (privileged, baseline, restricted) does not allow, as the admission says it."""
    checks = {"baseline": BASELINE, "restricted": BASELINE + RESTRICTED}.get(level, ())
    return [f"{title} ({', '.join(fields)})" for title, check in checks if (fields := list(check(spec)))]


def _container_contexts(spec: Json) -> Iterator[tuple[str, Json]]:
    for container in containers(spec):
        yield f'container "{container["name"]}"', container.get("securityContext", {})


def _host_namespaces(spec: Json) -> Iterator[str]:
    return (f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name))


def _privileged(spec: Json) -> Iterator[str]:
    return (
        f"{who} must not set securityContext.privileged=true"
        for who, c in _container_contexts(spec)
        if c.get("privileged")
    )


def _baseline_capabilities(spec: Json) -> Iterator[str]:
    for who, context in _container_contexts(spec):
        if added := set(context.get("capabilities", {}).get("add", [])) - CAPABILITIES:
            yield f"{who} must not include {sorted(added)} in securityContext.capabilities.add"


def _host_path(spec: Json) -> Iterator[str]:
    return (f'volume "{volume["name"]}"' for volume in spec.get("volumes", []) if "hostPath" in volume)


def _host_ports(spec: Json) -> Iterator[str]:
    for container in containers(spec):
        ports = [port["hostPort"] for port in container.get("ports", []) if port.get("hostPort")]
        yield from (f'container "{container["name"]}" uses hostPort {port}' for port in ports)


def _contexts(spec: Json) -> Iterator[tuple[str, Json]]:
    yield "pod", spec.get("securityContext", {})
    yield from _container_contexts(spec)


def _unconfined(spec: Json) -> Iterator[str]:
    for who, context in _contexts(spec):
        if context.get("seccompProfile", {}).get("type") == "Unconfined":
            yield f"{who} must not set securityContext.seccompProfile.type to Unconfined"


def _sysctls(spec: Json) -> Iterator[str]:
    names = {item["name"] for item in spec.get("securityContext", {}).get("sysctls", [])}
    return iter(sorted(names - SYSCTLS))


def _proc_mount(spec: Json) -> Iterator[str]:
    return (
        f"{who} must not set securityContext.procMount"
        for who, c in _container_contexts(spec)
        if c.get("procMount", "Default") != "Default"
    )


def _volume_types(spec: Json) -> Iterator[str]:
    for volume in spec.get("volumes", []):
        yield from (
            f'volume "{volume["name"]}" uses restricted type "{name}"' for name in set(volume) - VOLUMES - {"name"}
        )


def _escalation(spec: Json) -> Iterator[str]:
    for who, context in _container_contexts(spec):
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"{who} must set securityContext.allowPrivilegeEscalation=false"


def _root(spec: Json) -> Iterator[str]:
    pod = spec.get("securityContext", {}).get("runAsNonRoot")
    for who, context in _container_contexts(spec):
        if context.get("runAsNonRoot", pod) is not True:
            yield f"pod or {who} must set securityContext.runAsNonRoot=true"


def _root_user(spec: Json) -> Iterator[str]:
    return (f"{who} must not set runAsUser=0" for who, context in _contexts(spec) if context.get("runAsUser") == 0)


def _profile(spec: Json) -> Iterator[str]:
    pod = spec.get("securityContext", {}).get("seccompProfile", {}).get("type")
    for who, context in _container_contexts(spec):
        if context.get("seccompProfile", {}).get("type", pod) not in SECCOMP:
            yield f"pod or {who} {PROFILE}"


def _drops(spec: Json) -> Iterator[str]:
    for who, context in _container_contexts(spec):
        capabilities = context.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []):
            yield f'{who} must set securityContext.capabilities.drop=["ALL"]'
        if added := set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
            yield f"{who} must not include {sorted(added)} in securityContext.capabilities.add"


Check = Callable[[Json], Iterator[str]]
BASELINE: tuple[tuple[str, Check], ...] = (
    ("host namespaces", _host_namespaces),
    ("privileged", _privileged),
    ("non-default capabilities", _baseline_capabilities),
    ("hostPath volumes", _host_path),
    ("hostPort", _host_ports),
    ("seccompProfile", _unconfined),
    ("forbidden sysctls", _sysctls),
    ("procMount", _proc_mount),
)
RESTRICTED: tuple[tuple[str, Check], ...] = (
    ("allowPrivilegeEscalation != false", _escalation),
    ("unrestricted capabilities", _drops),
    ("restricted volume types", _volume_types),
    ("runAsNonRoot != true", _root),
    ("runAsUser=0", _root_user),
    ("seccompProfile", _profile),
)
