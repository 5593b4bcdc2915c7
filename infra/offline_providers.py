"""Serves providers that know no cloud to Terraform's commands; runs in the environment of `../shared/terraform`.

Terraform by itself starts each provider about seven times a command, and reads the schemas of all its types each time.
"""

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any


def main() -> None:
    """Print the value of TF_REATTACH_PROVIDERS as a line, and serve until standard input ends.

    Arguments: the folder of `fakeprovider.py`, the types that are used as a list in JSON, and files of schemas.
    """
    folder, types, *files = sys.argv[1:]
    sys.path.insert(0, folder)
    with tempfile.TemporaryDirectory() as sockets:
        servers = {}
        for at, file in enumerate(files):
            source, provider = read_provider(Path(file), json.loads(types))
            socket = f"{sockets}/{at}"
            servers[source] = socket, serve(provider, socket)
        addresses = {source: _address(socket) for source, (socket, _) in servers.items()}
        sys.stdout.write(f"{json.dumps(addresses)}\n")
        sys.stdout.flush()
        sys.stdin.read()


def read_provider(path: Path, types: list[str]) -> tuple[str, Any]:
    """Return the address and the provider of a file of schemas, with those of some types."""
    fake, rules = importlib.import_module("fakeprovider"), importlib.import_module("rules")
    ((source, schema),) = json.loads(fake.gzip.decompress(path.read_bytes()))["provider_schemas"].items()
    for kind in ("resource_schemas", "data_source_schemas"):
        schema[kind] = {name: schema[kind][name] for name in types if name in schema[kind]}
    response = fake.schema_response(schema)
    response.server_capabilities.get_provider_schema_optional = True  # once a command is enough
    answers = json.loads(Path(sys.path[0], "data.json").read_text())
    return source, fake.Provider(schema, response, rules.check, answers)


def serve(provider: Any, socket: str) -> Any:
    """Serve a provider at a Unix socket; return the server."""
    grpc = importlib.import_module("grpc")
    calls = {name: getattr(provider, name) for name in vars(type(provider)) if name[0].isupper()}
    calls["GetProviderSchema"] = lambda _: provider.raw
    handlers = {name: grpc.unary_unary_rpc_method_handler(_reply(name, call)) for name, call in calls.items()}
    server = grpc.server(futures.ThreadPoolExecutor(16), options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("tfplugin6.Provider", handlers),))
    server.add_insecure_port(f"unix://{socket}")
    server.start()
    return server


def _reply(name: str, call: Callable[[Any], Any]) -> Callable[[bytes, Any], bytes]:
    read = getattr(importlib.import_module("tfplugin6"), f"{name}_Request").FromString

    def reply(data: bytes, _: Any) -> bytes:
        answer: bytes = call(read(data)).SerializeToString()
        return answer

    return reply


def _address(socket: str) -> dict[str, Any]:
    address = {"Network": "unix", "String": socket}
    return {"Protocol": "grpc", "ProtocolVersion": 6, "Pid": os.getpid(), "Test": True, "Addr": address}


if __name__ == "__main__":
    main()
