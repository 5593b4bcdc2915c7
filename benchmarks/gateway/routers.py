"""The routers that are compared, each as a process in front of the same replicas."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from nightshift_testkit.processes import started, wait_until
from nightshift_testkit.servers import free_port

BIN = Path("build/gateway/bin")
FILTERS = "type.googleapis.com/envoy.extensions.filters"
# by default it prefers a cached prefix until 64 requests more run there than elsewhere
BALANCED = ("--balance-abs-threshold", "3", "--balance-rel-threshold", "1.5")
Command = Callable[[int, Sequence[str], Path], list[str]]


def _launch_ours(port: int, urls: Sequence[str], _: Path) -> list[str]:
    replicas = [word for url in urls for word in ("--replica", url)]
    return [sys.executable, "-m", "nightshift_llm.gateway", "--port", str(port), *replicas]


def _launch_vllm(port: int, urls: Sequence[str], _: Path) -> list[str]:
    words = ["--policy", "cache_aware", "--prometheus-port", str(free_port()), "--worker-urls", *urls]
    return [str(BIN / "vllm-router"), "--host", "127.0.0.1", "--port", str(port), *words]


def _launch_balanced_vllm(port: int, urls: Sequence[str], folder: Path) -> list[str]:
    return [*_launch_vllm(port, urls, folder), *BALANCED]


def _launch_sglang(port: int, urls: Sequence[str], _: Path) -> list[str]:
    words = ["--policy", "cache_aware", "--prometheus-port", str(free_port()), "--worker-urls", *urls]
    return [str(BIN / "sglang-router"), "launch", "--host", "127.0.0.1", "--port", str(port), *words]


def _launch_envoy(port: int, urls: Sequence[str], folder: Path) -> list[str]:
    (folder / "envoy.json").write_text(json.dumps(configure_envoy(port, urls)))
    return [str(BIN / "envoy"), "-c", str(folder / "envoy.json"), "--log-level", "error", "--use-dynamic-base-id"]


ROUTERS: dict[str, tuple[str, Command]] = {  # name -> executable that has to be there, command
    "nightshift_llm.gateway": (sys.executable, _launch_ours),
    "vllm-router, cache_aware": (str(BIN / "vllm-router"), _launch_vllm),
    "vllm-router, cache_aware, threshold 3": (str(BIN / "vllm-router"), _launch_balanced_vllm),
    "sglang-router, cache_aware": (str(BIN / "sglang-router"), _launch_sglang),
    "Envoy, round robin": (str(BIN / "envoy"), _launch_envoy),
}


@contextmanager
def launch(name: str, urls: Sequence[str], folder: Path) -> "Iterator[tuple[int, subprocess.Popen[bytes]]]":
    """Start a router, and wait until it completes a request; yields its port and process."""
    port = free_port()
    with (folder / "router.log").open("w") as log:
        command = ROUTERS[name][1](port, urls, folder)
        with started(command, stdout=log, stderr=subprocess.STDOUT) as process:
            wait_until(lambda: answers(f"http://127.0.0.1:{port}"), f"{name} answers", seconds=45, pause=0.2)
            yield port, process


def answers(url: str) -> bool:
    """Return whether a server completes a request."""
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
    try:
        return httpx.post(f"{url}/v1/chat/completions", json=body, timeout=10).status_code == 200
    except httpx.HTTPError:
        return False


def configure_envoy(port: int, urls: Sequence[str]) -> dict[str, object]:
    """Return Envoy's configuration: one listener, one cluster, round robin."""
    endpoints = [_address(*url.removeprefix("http://").split(":")) for url in urls]
    router = {"@type": f"{FILTERS}.http.router.v3.Router"}
    manager = {
        "@type": f"{FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "replicas", "timeout": "0s"}}],
                }
            ]
        },
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
    }
    network = {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
    cluster = {
        "name": "replicas",
        "lb_policy": "ROUND_ROBIN",
        "load_assignment": {
            "cluster_name": "replicas",
            "endpoints": [{"lb_endpoints": [{"endpoint": endpoint} for endpoint in endpoints]}],
        },
    }
    listener = {"name": "in", **_address("127.0.0.1", str(port)), "filter_chains": [{"filters": [network]}]}
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def _address(host: str, port: str) -> dict[str, object]:
    return {"address": {"socket_address": {"address": host, "port_value": int(port)}}}
