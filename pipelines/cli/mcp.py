"""The command for programs that speak the Model Context Protocol, such as assistants: tools that read a workspace."""

import argparse
import inspect
from collections.abc import Callable
from functools import wraps
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from nightshift import DISTRIBUTION
from nightshift.contracts.section import Page
from nightshift.runtime.errors import UnavailableError, UserError, suggest_install
from nightshift.runtime.printable import printable_lines
from nightshift.storage import stores
from pipelines.cli import options
from pipelines.workspace import Workspace

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

INSTRUCTIONS = (
    "Nightshift trains, judges, releases and monitors models every day. These tools read its runs, reports, models, "
    "verdicts on drift and costs; none changes anything. Begin with list_runs or list_models."
)
REPORT = "nightshift://runs/{run}/report"


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "mcp", mcp.__doc__)
    options.add_workspace(command)
    options.add_registry(command)
    command.set_defaults(command=mcp)


def mcp(args: argparse.Namespace) -> int:
    """Answer an MCP client on stdin and stdout, read-only: runs, reports, models, drift, costs."""
    build_server(Workspace(options.select_state(args))).run("stdio")
    return 0


def build_server(workspace: Workspace) -> "MCPServer[Any]":
    """Return a server whose tools are what a workspace can be asked.

    Raises:
        UserError: when the SDK is not installed.
    """
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp_types import ToolAnnotations
    except ImportError:
        raise UserError(f"nightshift mcp needs the package mcp; run {suggest_install('mcp')}") from None

    server = MCPServer[Any]("nightshift", instructions=INSTRUCTIONS, version=version(DISTRIBUTION), log_level="WARNING")
    readers: list[Callable[..., Any]] = [
        workspace.list_runs,
        workspace.read_report,
        workspace.list_models,
        workspace.read_drift,
        workspace.read_costs,
    ]
    for reader in readers:
        hints = ToolAnnotations(read_only_hint=True, open_world_hint=False)
        server.add_tool(_explain(reader), description=inspect.getdoc(reader), annotations=hints)

    @server.resource(REPORT, mime_type="application/json")
    @_explain
    def report(run: str) -> Page:
        """The report of a run."""
        return workspace.read_report(run)

    return server


def _explain(reader: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose errors are answers: the sentences that the command line prints."""
    from mcp.server.mcpserver.exceptions import ResourceError

    @wraps(reader)
    def answer(*args: Any, **kwargs: Any) -> Any:
        try:
            return reader(*args, **kwargs)
        except (UserError, UnavailableError) as error:
            raise ResourceError(printable_lines(str(error))) from None
        except OSError as error:
            raise ResourceError(str(stores.explain(error, error.filename))) from None

    return answer
