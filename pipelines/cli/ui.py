"""The command that serves a workspace's pages to people."""

import argparse

from nightshift import storage
from nightshift.contracts.state import ROOTS, DeploymentTarget, State
from nightshift.http.addresses import HOST, listen
from pipelines.cli import options
from pipelines.workspace import Workspace

PORT = 8765


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "ui", ui.__doc__)
    command.add_argument(
        "--workspace", default=".", help="folder, s3://... or gs://... of lake and runs (default: the current folder)"
    )
    options.add_registry(command)
    command.add_argument("--port", type=int, default=PORT, help="port, or the next free one (default: %(default)s)")
    command.set_defaults(command=ui)


def ui(args: argparse.Namespace) -> int:
    """Serve the workspace's pages on this machine, read-only: runs, reports, models, drift, data, costs."""
    import uvicorn

    from pipelines.ui.app import build_app

    workspace = Workspace(_state(args))
    count = len(workspace.index.runs())
    listener = listen(args.port)
    options.say(f"ui       http://{HOST}:{listener.getsockname()[1]}/ ({count:,} runs; Ctrl-C ends it)")
    config = uvicorn.Config(build_app(workspace), log_level="warning", server_header=False)
    uvicorn.Server(config).run(sockets=[listener])
    return 0


def _state(args: argparse.Namespace) -> State:
    """Return the state below a folder or URI, with the registry that was named."""
    if "://" not in args.workspace:
        return options.select_state(args)
    roots = {name: storage.join(args.workspace, name) for name in ROOTS}
    named = {"registry": args.registry, "audit": args.audit or roots["audit"]} if args.registry else {}
    return State.from_mapping({**roots, **named, "target": DeploymentTarget.RECORD_ONLY})
