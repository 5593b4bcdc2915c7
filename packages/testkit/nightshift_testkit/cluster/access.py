"""How a pod calls the API: over TLS, with a token of its account."""

import ssl
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nightshift_testkit.cluster.kinds import SERVICE_ACCOUNT, Json
from nightshift_testkit.cluster.runtimes import Mount
from nightshift_testkit.cluster.store import ResourceStore

FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
AUTOMOUNT = "automountServiceAccountToken"
MAKE = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=kubernetes"


@dataclass(frozen=True)
class Certificate:
    """A key, and the certificate that it has signed itself."""

    key: Path
    certificate: Path

    @classmethod
    def create(cls, folder: Path) -> "Certificate":
        """Make them in a folder."""
        pair = cls(folder / "api.key", folder / "api.crt")
        words = [
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            str(pair.key),
            "-out",
            str(pair.certificate),
        ]
        subprocess.run([*MAKE.split(), *words], check=True, capture_output=True)
        return pair

    @property
    def context(self) -> ssl.SSLContext:
        """What a server shows who it is with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


@dataclass(frozen=True)
class Access:
    """What pods are given."""

    port: int
    certificate: Certificate
    token: Callable[[str, str], str]  # token of a namespace's account

    @property
    def variables(self) -> dict[str, str]:
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.port)}

    def mounts(self, store: ResourceStore, pod: Json, folder: Path) -> list[Mount]:
        """Write what a pod finds under a path that all clients know; nothing when it or its account wants none."""
        namespace, name = pod["metadata"]["namespace"], pod["spec"]["serviceAccountName"]
        account = store.peek(SERVICE_ACCOUNT, name, namespace) or {}
        if not pod["spec"].get(AUTOMOUNT, account.get(AUTOMOUNT, True)):
            return []
        if not folder.exists():
            folder.mkdir(parents=True)
            (folder / "namespace").write_text(namespace)
            (folder / "ca.crt").write_bytes(self.certificate.certificate.read_bytes())
            (folder / "token").write_text(self.token(namespace, name))
        return [Mount(str(folder), FOLDER, read_only=True)]
