"""What Kubeflow puts in front of a step in its pod: a process of its own, from which the step is forked.

It copies the step's inputs to the pod, fills in the rest of the command line, runs it, uploads what the step left in
the places of its outputs, and reports what it has made. SCRATCH says where /s3 is.
"""

import json
import os
import sys
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nightshift_testkit.kubeflow_runs import forks

Json = dict[str, Any]
S3 = "{http://s3.amazonaws.com/doc/2006-03-01/}"
# the tests' store wants to be told who asks, and does not look whether it is true
SIGNED = {"authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, Signature=none"}


def main(words: list[str]) -> None:
    """Run a step and exit as Kubeflow's does: with 1 whatever its exit code was, unless that is 0."""
    end = words.index("--")
    options = dict(zip(words[:end:2], words[1:end:2], strict=True))
    executor_input = json.loads(options["--executor_input"])
    for artifact in _artifacts(executor_input["inputs"]["artifacts"]):
        _download(artifact["uri"])
    for artifact in _artifacts(executor_input["outputs"]["artifacts"]):
        _local(artifact["uri"]).parent.mkdir(parents=True, exist_ok=True)
    if forks.call(filled(words[end + 1 :], executor_input)):
        sys.exit(1)
    _report(options, _upload_outputs(executor_input["outputs"]))


def _artifacts(artifacts: Json) -> Iterator[Json]:
    for entry in artifacts.values():
        yield from entry["artifacts"]


def _local(uri: str) -> Path:
    return Path(os.environ["SCRATCH"]) / uri.removeprefix("s3://")


def filled(words: list[str], executor_input: Json) -> list[str]:
    """A command line with what the driver has left for the launcher."""
    texts = {"{{$}}": json.dumps(executor_input)}
    for part in ("inputs", "outputs"):
        for name, entry in executor_input[part]["artifacts"].items():
            texts[f"{{{{$.{part}.artifacts['{name}'].uri}}}}"] = entry["artifacts"][0]["uri"]
    for placeholder, text in texts.items():
        words = [word.replace(placeholder, text) for word in words]
    return words


def _upload_outputs(outputs: Json) -> Json:
    """Upload, and return the artifacts with what the step says of them."""
    path = Path(outputs["outputFile"])
    reported = json.loads(path.read_text())["artifacts"] if path.exists() else {}
    artifacts = {}
    for name, entry in outputs["artifacts"].items():
        artifact = dict(entry["artifacts"][0])
        if name in reported and name != "executor-logs":
            artifact |= {key: reported[name]["artifacts"][0][key] for key in ("uri", "metadata")}
        _upload(_local(artifact["uri"]), artifact["uri"])
        artifacts[name] = {"artifacts": [artifact]}
    return artifacts


def _request_store(path: str, query: str = "", content: bytes | None = None) -> bytes:
    """Ask the object store for something, or give it something."""
    url = f"{os.environ['AWS_ENDPOINT_URL']}/{quote(path)}{query}"
    method = "GET" if content is None else "PUT"
    with urllib.request.urlopen(urllib.request.Request(url, content, SIGNED, method=method)) as answer:
        return bytes(answer.read())


def _download(uri: str) -> None:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    listed = ET.fromstring(_request_store(bucket, f"?list-type=2&prefix={quote(key)}"))
    for name in [element.text or "" for element in listed.iter(f"{S3}Key")]:
        target = _local(f"s3://{bucket}/{name}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_request_store(f"{bucket}/{name}"))


def _upload(path: Path, uri: str) -> None:
    """Upload a file or a folder; a step may leave nothing there, as one does that writes to the URI itself."""
    files = [path] if path.is_file() else [nested for nested in path.rglob("*") if nested.is_file()]
    for file in files:
        below = "" if file == path else f"/{file.relative_to(path)}"
        _request_store(uri.removeprefix("s3://") + below, content=file.read_bytes())


def _report(options: dict[str, str], outputs: Json) -> None:
    host, port = options["--mlmd_server_address"], options["--mlmd_server_port"]
    url = f"http://{host}:{port}/executions/{options['--execution_id']}"
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(outputs).encode(), method="POST")).close()


if __name__ == "__main__":
    main(sys.argv[1:])
