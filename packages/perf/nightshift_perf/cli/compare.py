"""Compares the speed of models."""

import argparse
from pathlib import Path

from nightshift import registry
from nightshift.contracts import package
from nightshift.contracts.verdict import Decision
from nightshift.registry import Version, release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.errors import UserError
from nightshift.runtime.step import USER_ERROR
from nightshift_perf.pairs import PAIRS, ROUNDS, BenchmarkProcess, compare_kernels
from pipelines import records
from pipelines.cli import options

CHAMPION = "champion"


def add(actions: options.Commands) -> None:
    """Add the action."""
    command = options.add_command(actions, "compare", compare.__doc__)
    command.add_argument(
        "run", nargs="?", default="latest", help="run, version or `champion` to judge (default: the latest run)"
    )
    command.add_argument("--baseline", required=True, help="run, version or `champion` to compare with")
    command.add_argument(
        "--baseline-code", metavar="FOLDER", type=Path, help="checkout that runs the baseline (default: this one)"
    )
    command.add_argument(
        "--pairs", type=int, default=PAIRS, help="pairs to measure per kernel and round (default: %(default)s)"
    )
    command.add_argument(
        "--rounds", type=int, default=ROUNDS, help="rounds to measure, each in new processes (default: %(default)s)"
    )
    command.add_argument("--output", metavar="FILE", help="JSON file to write the verdict to")
    options.add_json(command, "verdict")
    options.add_workspace(command)
    options.add_registry(command)
    options.add_use_case(command)
    command.set_defaults(command=compare)


def compare(args: argparse.Namespace) -> int:
    """Measure two models in turn, and exit with code 2 if the first is slower than the baseline."""
    from nightshift.stats import performance  # NumPy, which Airflow's environment lacks

    if min(args.pairs, args.rounds) < 1:
        raise UserError(f"--pairs is {args.pairs} and --rounds is {args.rounds}; give 1 or more")
    if args.baseline_code and not (args.baseline_code / "components").is_dir():
        raise UserError(
            f"--baseline-code {args.baseline_code} has no folder `components`; give a checkout of this project"
        )
    ours, theirs = _model(args, args.run), _model(args, args.baseline)
    pairs = compare_kernels(
        lambda: BenchmarkProcess(theirs, args.baseline_code), lambda: BenchmarkProcess(ours), args.pairs, args.rounds
    )
    verdict = performance.judge(pairs, package.load(ours).sha256)
    if args.output:
        verdict.write(args.output)
    code = USER_ERROR if verdict.decision is Decision.FAIL else 0
    if args.json:
        return options.print_document(verdict, code)
    for measure in verdict.measures:
        options.say(f"{measure.name:20} {measure.value or 0:.3f} times the baseline, limit {measure.limit:.2f}")
    options.say(f"{verdict.decision}: {' '.join(verdict.reasons)}")
    return code


def _model(args: argparse.Namespace, reference: str) -> str:
    """Return the URI of a model: of a version in the registry, or of a run in the workspace."""
    if reference == CHAMPION or reference.isdecimal():
        return _version(args, reference).uri
    folder = records.find_folder(reference, options.state(args).runs)
    # where a run has optimized its model, that is what is served
    folders = [
        path.parent for output in ("optimized", "model") for path in folder.glob(f"*/{output}/{package.MANIFEST}")
    ]
    if not folders:
        raise UserError(f"run {folder.name} has made no model; name one that trained, or a version's number")
    return str(folders[0])


def _version(args: argparse.Namespace, reference: str) -> Version:
    state = options.select_state(args)
    name = registry.choose_name(state.registry, options.use_case(args))
    if reference != CHAMPION:
        return registry.find(state.registry, name, int(reference))
    champion = release_record.champion(ReleaseRef.from_state(state, name))
    if champion is None:
        raise UserError(f"{name} has no champion yet; give a version's number, as in `nightshift models`")
    return champion
