"""Every command that a page shows: it exists, knows its flags, and runs in a test, or there is a reason why not."""

import contextlib
import io
import re
import shlex
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import pytest

from nightshift_testkit.processes import SECONDS, engine
from pipelines.cli.__main__ import COMMANDS, parse_command_line
from tests.test_docs import MAKEFILE, PAGES, ROOT, TARGETS

Argv = list[str]

# programs whose commands are not run here -> the reason
ELSEWHERE = {
    "aws": "needs an account of AWS",
    "cd": "changes a shell's folder",
    "cp": "copies a config; tests/e2e/test_use_cases.py writes its own",
    "curl": "needs an endpoint; tests/e2e/test_daily_run.py sends the line that a run prints",
    "dbt": "is not ours, and needs a project of the reader's",
    "df": "needs a mounted Lustre",
    "docker": "starts services of images that no test can pull; tests/containers/test_team.py reads compose.yaml",
    "do": "repeats a command of the shell",
    "done": "ends a loop of the shell",
    "du": "needs a mounted Lustre",
    "export": "sets a variable of a shell",
    "feast": "is not ours, and needs an environment of its own",
    "find": "is not ours",
    "for": "begins a loop of the shell",
    "gcloud": "needs an account of Google Cloud",
    "kubectl": "needs a cluster; tests/infra/test_runbooks.py checks the objects that are named",
    "lm_eval": "is lm-evaluation-harness, which has an environment of its own",
    "pip": "installs packages; .ci/run does",
    "sbatch": "needs a SLURM cluster; tests/components/training/test_slurm.py runs the script with an srun of its own",
    "sed": "is not ours",
    "systemctl": "needs systemd; tests/pipelines/cli/test_models.py starts what the unit starts",
    "terraform": "needs an account; tests/infra/test_terraform.py plans with stand-in providers",
    "tritonserver": "packages/testkit/nightshift_testkit/triton.py starts it where it is installed",
    "uvicorn": "serves a file of the reader's",
}
# commands of nightshift -> the test that runs them
RUN_BY = {
    "backfill": "tests/e2e/test_monitoring.py",
    "cloud": "tests/infra/test_cloud.py",
    "compile": "tests/test_documented_commands.py",
    "config": "tests/pipelines/cli/test_cli.py",
    "approve": "tests/pipelines/cli/test_models.py",
    "contract": "tests/pipelines/cli/test_contract.py",
    "costs": "tests/pipelines/cli/test_costs.py",
    "debug-dump": "tests/pipelines/cli/test_doctor.py",
    "doctor": "tests/pipelines/cli/test_doctor.py",
    "drift": "tests/pipelines/cli/test_history.py",
    "experiment": "tests/components/release/test_experiments.py",
    "events": "tests/pipelines/test_event_search.py",
    "erase": "tests/pipelines/erasure/test_command.py",
    "exporter": "tests/pipelines/engines/kubeflow/test_exporter.py",
    "features": "tests/pipelines/cli/test_features.py",
    "gc": "tests/e2e/test_daily_run.py",
    "image-text": "packages/image-text/tests/test_image_text.py",
    "init": "tests/test_wheels.py",
    "llm": "packages/llm/tests/cli/test_llm.py",
    "loadtest": "tests/pipelines/cli/test_cli.py",
    "mcp": "tests/pipelines/cli/test_mcp.py",
    "models": "tests/pipelines/cli/test_models.py",
    "notify": "tests/pipelines/cli/test_notify.py",
    "optimize": "tests/e2e/test_daily_run.py",
    "perf": "packages/perf/tests/test_pairs.py",
    "projects": "tests/test_projects.py",
    "promote": "tests/pipelines/cli/test_models.py",
    "push": "tests/pipelines/cli/test_hub.py",
    "release": "tests/pipelines/cli/test_cli.py",
    "repair": "tests/nightshift/tabular/online/test_repair.py",
    "report": "tests/e2e/test_daily_run.py",
    "rollback": "tests/pipelines/cli/test_models.py",
    "serve": "tests/pipelines/cli/test_models.py",
    "run": "tests/e2e/test_daily_run.py",
    "runs": "tests/pipelines/cli/test_history.py",
    "schedule": "tests/e2e/test_kubeflow.py",
    "show": "tests/pipelines/cli/test_cli.py",
    "stop": "tests/e2e/test_daily_run.py",
    "submit": "tests/e2e/test_kubeflow.py",
    "update": "tests/test_wheels.py",
    "ui": "tests/pipelines/ui/test_ui.py",
}
# the pages' very lines of these are run below: they need no run, no network and no GPU
RUN_HERE = ("nightshift perf plan", "nightshift costs --samples", "nightshift gc")


def split_commands(script: str) -> Iterator[Argv]:
    """Yield the commands of a shell script without comments, documents and assignments before a command."""
    script = re.sub(r"<<'END'\n.*?^ *END$", "", script.replace("\\\n", " "), flags=re.MULTILINE | re.DOTALL)
    pending = ""
    for line in script.splitlines():
        pending += line + "\n"
        with contextlib.suppress(ValueError):  # a quotation goes on in the next line
            yield from split_line(pending)
            pending = ""
    assert pending.strip() == "", f"a quotation that does not end: {pending}"


def split_line(line: str) -> Iterator[Argv]:
    """Yield the commands of a line: between pipes, semicolons and redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&")
    lexer.whitespace_split = True
    command: Argv = []
    for word in [*lexer, ";"]:
        if set(word) <= set("|;&"):
            if command:
                yield command
            command = []
        elif command or not re.fullmatch(r"[A-Z_]+=.*", word, re.DOTALL):
            command.append(word.removeprefix(".venv/bin/").removeprefix(".venv-airflow/bin/"))


def shown_in_blocks(page: Path) -> list[Argv]:
    """Return the commands of a page's shell blocks, fenced or indented."""
    text = page.read_text()
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    known = rf"^    (?:{'|'.join(['nightshift', 'python', 'pytest', 'make', *ELSEWHERE])}) .*\n(?:^        .*\n)*"
    return [argv for block in [*blocks, *re.findall(known, prose, re.MULTILINE)] for argv in split_commands(block)]


def shown_in_text(page: Path) -> list[Argv]:
    """Return the commands that a page names in its sentences; some leave out arguments."""
    prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    named = re.findall(r"`((?:\.venv\S*/bin/)?(?:nightshift|python|pytest|make) [^`]+)`", prose)
    return [argv for command in named for argv in split_line(command)]


BLOCKS = {(page, shlex.join(argv)): argv for page in PAGES for argv in shown_in_blocks(page)}
TEXT = {(page, shlex.join(argv)): argv for page in PAGES for argv in shown_in_text(page)}
NAMED = BLOCKS | TEXT


def of_program(commands: dict[tuple[Path, str], Argv], program: str) -> list[object]:
    """Return the commands of a program as parameters of a test, each once."""
    unique = {text: argv for (_, text), argv in commands.items() if argv[0] == program}
    return [pytest.param(argv, id=text) for text, argv in unique.items()]


def flags(argv: Argv) -> set[str]:
    return {word.partition("=")[0] for word in argv if re.fullmatch(r"--[a-z][a-z0-9-]*(=.*)?", word, re.DOTALL)}


def print_help(*command: str) -> str:
    """Return what `nightshift <command> --help` prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        parse_command_line([*(word for word in command if word != "--help"), "--help"])
    return printed.getvalue()


def read_sources(module: str) -> str:
    """Return the source of a module and of the package that it is in, where its flags are defined."""
    spec = find_spec(module)
    assert spec and spec.origin, f"there is no module {module}"
    file = Path(spec.origin).with_name("__main__.py") if spec.submodule_search_locations else Path(spec.origin)
    shared = [ROOT / "nightshift" / "runtime" / "step.py", *file.parent.glob("*.py")]
    return "".join(source.read_text() for source in [file, *shared])


def test_every_program_is_checked_here_or_has_a_reason() -> None:
    programs = {argv[0] for argv in BLOCKS.values()}

    assert programs - {"nightshift", "python", "pytest", "make"} == ELSEWHERE.keys()


@pytest.mark.parametrize("argv", of_program(BLOCKS, "nightshift"))
def test_the_command_line_takes_what_the_pages_show(argv: Argv) -> None:
    words = [word for word in argv[1:] if word != "..."]

    assert parse_command_line(words).command


@pytest.mark.parametrize("argv", of_program(TEXT, "nightshift"))
def test_a_command_has_the_flags_that_the_pages_name(argv: Argv) -> None:
    assert flags(argv) <= set(
        re.findall(r"--[a-z][a-z0-9-]*", print_help(*argv[1 : 3 if argv[1] in ("llm", "perf") else 2]))
    )


@pytest.mark.parametrize("argv", of_program(NAMED, "python"))
def test_a_module_exists_and_has_the_flags_that_the_pages_name(argv: Argv) -> None:
    if (
        argv[1] == "-m" and "<" not in argv[2] and argv[2] != "nightshift.models.neural"
    ):  # the latter has torchrun's flags
        sources = read_sources(argv[2])

        # some are made from a table of names, some are keywords of `takes`
        names = [flag.removeprefix("--") for flag in flags(argv)]
        assert [name for name in names if not re.search(rf'"(--)?{name}"|\b{name}=', sources)] == []


@pytest.mark.parametrize("argv", of_program(NAMED, "pytest"))
def test_the_tests_that_the_pages_name_exist(argv: Argv) -> None:
    assert all((ROOT / word).exists() for word in argv if word.startswith(("tests/", "packages/")))


@pytest.mark.parametrize("argv", of_program(NAMED, "make"))
def test_the_makefile_has_the_targets_and_variables_that_the_pages_name(argv: Argv) -> None:
    variables = {word.partition("=")[0] for word in argv[2:] if "=" in word}

    assert argv[1] in TARGETS or f"{argv[1]}:" in MAKEFILE.replace("$(TRITON_VENV)", ".venv-triton")
    assert variables <= set(re.findall(r"\$\((?:or \$\()?([A-Z_]+)", MAKEFILE))


def test_every_command_is_run_by_a_test() -> None:
    commands = {name for texts in COMMANDS.values() for name in texts} | {"image-text", "llm", "perf"}

    assert commands == RUN_BY.keys()
    assert [name for name, file in RUN_BY.items() if f'"{name}"' not in (ROOT / file).read_text()] == []


@pytest.mark.slow
@pytest.mark.parametrize("argv", [argv for argv in BLOCKS.values() if shlex.join(argv).startswith(RUN_HERE)])
def test_a_command_that_needs_nothing_else_runs_as_it_is_shown(argv: Argv, tmp_path: Path) -> None:
    done = subprocess.run(engine(*argv[1:]), cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)

    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_pipelines_compile(tmp_path: Path) -> None:
    subprocess.run(engine("compile", "--environment", "local", "--folder", str(tmp_path)), check=True, timeout=SECONDS)

    assert (tmp_path / "local" / "training.yaml").exists()


@pytest.mark.slow
def test_the_config_of_a_csv_file_is_guessed_by_the_command_of_the_page(tmp_path: Path) -> None:
    (argv,) = [
        argv for (page, _), argv in BLOCKS.items() if page.name == "your-data.md" and "data/bookings.csv" in argv
    ]
    times = [datetime(2025, 5, 1) + timedelta(hours=hour) for hour in range(60 * 24)]
    rows = [f"B{hour:04};{time:%d.%m.%Y %H:%M};{hour % 7};{hour % 3 == 0:d}" for hour, time in enumerate(times)]
    (tmp_path / "data").mkdir()
    (tmp_path / argv[-1]).write_text("\n".join(["Booking no.;Booked at;Price;Canceled?", *rows]))

    done = subprocess.run(engine(*argv[1:]), cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "bookings.yaml").exists()
