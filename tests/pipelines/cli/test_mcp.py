"""`nightshift mcp`: a client of the Model Context Protocol reads a workspace, and nothing else."""

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from nightshift.contracts.__main__ import list_artifacts
from nightshift.contracts.__main__ import schema as schema_of
from pipelines.cli.mcp import build_server
from pipelines.environments import local
from pipelines.workspace import Workspace
from tests.pipelines.samples import command

ROOT = Path(__file__).parents[3]
# tool -> the schema of its answer
TOOLS = {
    "list_models": "model_list",
    "list_runs": "run_list",
    "read_costs": "run_costs",
    "read_drift": "drift_history",
    "read_report": "page",
}
# the command line in a process that ends at the first attempt to write, rename, remove or start something
READ_ONLY = """
import os, sys

CHANGES = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.utime",
           "os.truncate", "os.fork", "os.exec", "os.posix_spawn", "os.system", "subprocess.Popen"}

def refuse(event, arguments):
    opens = event == "open" and not isinstance(arguments[0], int)  # no stream that is open already
    writes = opens and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes or event in CHANGES:
        print(event, *arguments, file=sys.stderr, flush=True)
        os._exit(70)

sys.addaudithook(refuse)
from pipelines.cli.__main__ import main
main()
"""

Use = Callable[[Client], Awaitable[Any]]


def ask(server: Any, use: Use) -> Any:
    """Return what a client makes of a server."""

    async def connect() -> Any:
        async with Client(server) as client:
            return await use(client)

    return anyio.run(connect)


def call(folder: Path, tool: str, **arguments: Any) -> CallToolResult:
    result = ask(build_server(Workspace(local(folder))), lambda client: client.call_tool(tool, arguments))
    assert isinstance(result, CallToolResult)
    return result


def complaint(folder: Path, tool: str, **arguments: Any) -> str:
    result = call(folder, tool, **arguments)
    (content,) = result.content
    assert result.is_error
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.slow
def test_a_server_that_may_not_write_answers_every_tool(workspace: Path) -> None:
    words = ["-c", READ_ONLY, "mcp", "--workspace", str(workspace)]
    environment = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    server = StdioServerParameters(command=sys.executable, args=words, env=environment)
    arguments = {"read_drift": {"name": "fraud"}, "read_costs": {"run": "fraud-1"}, "read_report": {"run": "fraud-1"}}

    async def call_all(client: Client) -> dict[str, CallToolResult]:
        tools = (await client.list_tools()).tools
        return {tool.name: await client.call_tool(tool.name, arguments.get(tool.name, {})) for tool in tools}

    results = ask(server, call_all)

    assert results.keys() == TOOLS.keys()
    assert [name for name, result in results.items() if result.is_error] == []
    (run,) = results["list_runs"].structured_content["runs"]
    assert (run["run"], run["pipeline"], run["use_case"], run["has_report"]) == ("fraud-1", "monitoring", "fraud", True)
    (check,) = results["read_drift"].structured_content["checks"]
    assert (check["logical_date"], check["verdict"]["decision"]) == ("2018-07-31", "fail")


def test_the_schemas_of_answers_are_the_published_ones(tmp_path: Path) -> None:
    tools = ask(build_server(Workspace(local(tmp_path))), lambda client: client.list_tools()).tools

    published = {name: json.loads(schema_of(list_artifacts()[schema])) for name, schema in TOOLS.items()}
    assert {tool.name: published[tool.name] | tool.output_schema for tool in tools} == published
    assert all(tool.annotations.read_only_hint for tool in tools)


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("list_models", {}, "models"),
        ("read_report", {"run": "fraud-1"}, "show fraud-1"),
        ("read_costs", {}, "costs"),
        ("read_costs", {"run": "fraud-1"}, "costs fraud-1"),
    ],
)
def test_a_tool_answers_what_its_command_prints(
    tool: str, arguments: dict[str, Any], words: str, workspace: Path
) -> None:
    printed = command(*words.split(), "--workspace", str(workspace), "--json").stdout

    assert call(workspace, tool, **arguments).structured_content == json.loads(printed)


def test_a_report_is_a_resource(workspace: Path) -> None:
    server = build_server(Workspace(local(workspace)))

    result = ask(server, lambda client: client.read_resource("nightshift://runs/fraud-1/report"))

    assert json.loads(result.contents[0].text) == json.loads((workspace / "runs" / "fraud-1" / "page.json").read_text())


@pytest.mark.parametrize("run", ["fraud-2", "..", ".", "", "../runs/fraud-1", "/etc", "fraud-1/../fraud-1", "a\0b"])
def test_a_run_is_one_of_those_in_the_folder_and_no_path(run: str, workspace: Path) -> None:
    (workspace / "run.json").write_text("{}")

    assert f"there is no run {run!r} in {workspace / 'runs'}; the newest is fraud-1" in complaint(
        workspace, "read_report", run=run
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("list_models", {"name": "leads"}, "use case is 'leads'; registered models: fraud"),
        (
            "read_drift",
            {"name": "frau"},
            "has no run of use case 'frau'; use cases with runs: fraud; did you mean 'fraud'?",
        ),
        ("list_runs", {"limit": 0}, "Input should be greater than 0"),
    ],
)
def test_what_is_not_there_is_answered_with_a_sentence(
    tool: str, arguments: dict[str, Any], sentence: str, workspace: Path
) -> None:
    assert sentence in complaint(workspace, tool, **arguments)


def test_a_resource_that_is_not_there_is_answered_with_a_sentence(workspace: Path) -> None:
    async def read(client: Client) -> None:
        with pytest.raises(MCPError, match="there is no run 'fraud-2'"):
            await client.read_resource("nightshift://runs/fraud-2/report")

    ask(build_server(Workspace(local(workspace))), read)


def test_a_run_whose_record_is_damaged_is_named_and_hides_no_other(workspace: Path) -> None:
    damaged = workspace / "runs" / "fraud-2"
    damaged.mkdir()
    (damaged / "run.json").write_text("{")

    answer = call(workspace, "list_runs", name="fraud").structured_content

    assert answer is not None
    assert [run["run"] for run in answer["runs"]] == ["fraud-1"]
    assert "fraud-2/run.json is no record of a run" in answer["problems"][0]


@pytest.mark.slow
def test_without_the_sdk_the_command_says_how_to_install_it(tmp_path: Path) -> None:
    code = "import sys; sys.modules['mcp'] = None; from pipelines.cli.__main__ import main; main()"

    done = subprocess.run([sys.executable, "-c", code, "mcp"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("nightshift: nightshift mcp needs the package mcp; run pip install")
