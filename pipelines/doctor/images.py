"""Images: whether a registry has them, asked as a node does that pulls one (API v2 of the OCI's distribution spec)."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import urllib3

from nightshift.cluster import MissingError
from nightshift.contracts.health import HealthCheck
from nightshift.runtime.errors import UnavailableError, UserError, may_pass
from pipelines.doctor.access import RUNS
from pipelines.doctor.findings import INSTALL, Checks, failure, skip, success
from pipelines.doctor.kubernetes import Kubernetes
from pipelines.environments import SERVICE_ACCOUNT, Site
from pipelines.images import PUSHED_IMAGES

EXAMPLE = "registry.example.com"
ACCEPT = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in (
        "oci.image.index.v1",
        "oci.image.manifest.v1",
        "docker.distribution.manifest.list.v2",
        "docker.distribution.manifest.v2",
    )
)
DOCKER_CONFIG = ".dockerconfigjson"
TIMEOUT_SECONDS = 10
UNAUTHORIZED = (401, 403)


class LoginError(UserError):
    """A registry that wants a login, or another one."""


class ImageRegistry(Protocol):
    """Registries of images."""

    def resolve(self, image: str, login: str) -> str:
        """Return the digest of an image.

        Args:
            image: `host/name:tag`.
            login: user:password in base 64; empty for nobody.

        Raises:
            LoginError: when the registry refuses the login.
            UserError: when it has no such image.
            UnavailableError: when it does not answer.
        """


class HttpRegistry:
    """Registries by HTTPS; those on this machine by HTTP."""

    def __init__(self) -> None:
        """Makes no calls."""
        self._pool = urllib3.PoolManager(retries=False, timeout=TIMEOUT_SECONDS)

    def resolve(self, image: str, login: str) -> str:
        """See `ImageRegistry`."""
        host, name, tag = split_reference(image)
        scheme = "http" if host.startswith(("127.0.0.1", "localhost")) else "https"
        url = f"{scheme}://{host}/v2/{name}/manifests/{tag}"
        answer = self._head(url, f"Basic {login}" if login else "")
        challenge = answer.headers.get("www-authenticate", "")
        if answer.status in UNAUTHORIZED and challenge.lower().startswith("bearer "):
            answer = self._head(url, f"Bearer {self._fetch_token(challenge, login)}")
        if answer.status in UNAUTHORIZED:
            raise LoginError(f"{host} refuses {'the login' if login else 'a request without a login'}")
        if may_pass(answer.status):
            raise UnavailableError(f"{host} answers {answer.status}")
        if answer.status != 200:
            raise UserError(f"{host} answers {answer.status}: it has no {name}:{tag}")
        return str(answer.headers.get("docker-content-digest", "without a digest"))

    def _head(self, url: str, authorization: str) -> Any:
        headers = {"accept": ACCEPT} | ({"authorization": authorization} if authorization else {})
        return self._send("HEAD", url, headers)

    def _fetch_token(self, challenge: str, login: str) -> str:
        """Ask the registry's token server, as its answer 401 says."""
        fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
        query = {key: fields[key] for key in ("service", "scope") if key in fields}
        headers = {"authorization": f"Basic {login}"} if login else {}
        answer = self._send("GET", fields["realm"], headers, query)
        document = json.loads(answer.data) if answer.status == 200 else {}
        return str(document.get("token") or document.get("access_token") or "")

    def _send(self, method: str, url: str, headers: Mapping[str, str], fields: Mapping[str, str] | None = None) -> Any:
        try:
            return self._pool.request(method, url, headers=headers, fields=fields)
        except urllib3.exceptions.HTTPError as error:
            raise UnavailableError(f"{url} does not answer: {error}") from None


def check_images(cluster: Kubernetes, site: Site, registry: ImageRegistry) -> Checks:
    """Check that the registry has every image of an environment, with the pull secrets of the steps' account."""
    logins = dict[str, str]()
    try:
        logins = dict(_read_logins(cluster))
    except LoginError as error:
        fix = f"kubectl create secret docker-registry --namespace {RUNS}, under the name in imagePullSecrets"
        yield failure(f"pull secrets of {SERVICE_ACCOUNT}", str(error), f"a secret with {DOCKER_CONFIG}", fix)
    for image in sorted({placement.image for placement in site.placements.values()}):
        yield _check_image(registry, image, logins.get(split_reference(image)[0], ""))


def split_reference(image: str) -> tuple[str, str, str]:
    """Return host, name and tag, or digest, of an image's reference."""
    host, _, rest = image.partition("/")
    name, _, tag = rest.partition("@" if "@" in rest else ":")
    return host, name, tag or "latest"


def _check_image(registry: ImageRegistry, image: str, login: str) -> HealthCheck:
    name = f"image {image}"
    if image.startswith(f"{EXAMPLE}/"):
        fix = f"export {PUSHED_IMAGES} as make cloud-schedule does, with what make cloud-images has pushed"
        return failure(name, f"{EXAMPLE} does not exist", "your registry", fix)
    try:
        return success(name, registry.resolve(image, login))
    except LoginError as error:
        if not login:
            return skip(name, f"{error}; nodes log in as themselves, and --in-pod pulls the image base so")
        fix = f"kubectl create secret docker-registry, named in imagePullSecrets of the account {SERVICE_ACCOUNT}"
        return failure(name, str(error), "a login that may pull", fix)
    except UserError as error:
        return failure(name, str(error), "an image of this version", f"build and push it: containers/; then {INSTALL}")


def _read_logins(cluster: Kubernetes) -> Iterator[tuple[str, str]]:
    """Yield host and login of the pull secrets of the steps' account."""
    try:
        account = cluster.get(f"/api/v1/namespaces/{RUNS}/serviceaccounts/{SERVICE_ACCOUNT}")
    except MissingError:  # a check of its own
        return
    for secret in account.get("imagePullSecrets", []):
        yield from _read_secret(cluster, secret["name"])


def _read_secret(cluster: Kubernetes, name: str) -> Iterator[tuple[str, str]]:
    try:
        data = cluster.get(f"/api/v1/namespaces/{RUNS}/secrets/{name}").get("data", {})
        hosts = json.loads(base64.b64decode(data[DOCKER_CONFIG]))["auths"]
    except MissingError:
        raise LoginError(f"{name} is missing") from None
    except (KeyError, ValueError):
        raise LoginError(f"{name} has no {DOCKER_CONFIG} with auths") from None
    for host, entry in hosts.items():
        login = entry.get("auth") or base64.b64encode(f"{entry['username']}:{entry['password']}".encode()).decode()
        yield host.removeprefix("https://").partition("/")[0], login
