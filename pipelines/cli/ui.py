"""The command that serves a workspace's pages to people."""

import argparse
import os
import secrets
from typing import TYPE_CHECKING

from nightshift import storage
from nightshift.contracts.state import ROOTS, DeploymentTarget, State
from nightshift.http.addresses import HOST, listen
from nightshift.runtime.errors import UserError
from pipelines.cli import options
from pipelines.ui import TOKEN
from pipelines.workspace import Workspace

if TYPE_CHECKING:
    from pipelines.ui.access import AccessGate

PORT = 8765
SHORTEST = 16  # characters of a token


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "ui", ui.__doc__)
    command.add_argument(
        "--workspace", default=".", help="folder, s3://... or gs://... of lake and runs (default: the current folder)"
    )
    options.add_registry(command)
    command.add_argument("--port", type=int, default=PORT, help="port, or the next free one (default: %(default)s)")
    command.add_argument(
        "--allow",
        action="store_true",
        help=f"let who has the token start and retry runs, hold releases, approve and roll back; {TOKEN} holds the "
        "token, or the command prints a new one (default: read-only)",
    )
    command.set_defaults(command=ui)


def ui(args: argparse.Namespace) -> int:
    """Serve the workspace's pages on this machine: runs, reports, models, drift, data, costs."""
    import uvicorn

    from pipelines.ui.app import build_app

    workspace = Workspace(_state(args))
    count = len(workspace.index.runs())
    listener = listen(args.port)
    url = f"http://{HOST}:{listener.getsockname()[1]}"
    options.say(f"ui       {url}/ ({count:,} runs; Ctrl-C ends it)")
    gate = _make_gate(url) if args.allow else None
    config = uvicorn.Config(build_app(workspace, gate), log_level="warning", server_header=False)
    uvicorn.Server(config).run(sockets=[listener])
    return 0


def _make_gate(url: str) -> "AccessGate":
    """Return who lets in those with the token of the environment, or with a new one, which is printed."""
    from pipelines.ui.access import TOKEN_BYTES, AccessGate

    token = os.environ.get(TOKEN, "")
    if 0 < len(token) < SHORTEST:
        raise UserError(f"{TOKEN} has {len(token)} characters; give it {SHORTEST} at least, or leave it out")
    if not token:
        token = secrets.token_urlsafe(TOKEN_BYTES)
        options.say(f"to act   {url}/login?token={token}")
    return AccessGate(token)


def _state(args: argparse.Namespace) -> State:
    """Return the state below a folder or URI, with the registry that was named."""
    if "://" not in args.workspace:
        return options.select_state(args)
    roots = {name: storage.join(args.workspace, name) for name in ROOTS}
    named = {"registry": args.registry, "audit": args.audit or roots["audit"]} if args.registry else {}
    return State.from_mapping({**roots, **named, "target": DeploymentTarget.RECORD_ONLY})
