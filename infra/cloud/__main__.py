"""`python -m infra.cloud up aws dev` prints commands; `make cloud-up` runs them in a shell."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.cloud import answers as questions
from infra.cloud import asking, core, rendering
from infra.cloud.answers import Cloud, EnvironmentAnswers, Size
from infra.cloud.rendering import IMAGES, OUTPUTS, RENDERED, Infrastructure, make
from infra.terraform import INFRA
from nightshift.runtime import strict_yaml
from nightshift.runtime.errors import UserError
from nightshift.runtime.printable import exit_on_closed_pipe

CHARTS = INFRA / "cluster" / "charts.yaml"


def main() -> None:
    """Print one command per line; exit with code 2 on a user's mistake."""
    args = _parser().parse_args()
    with exit_on_closed_pipe():
        try:
            for line in args.action(args):
                print(line)
        except UserError as error:
            print(f"cloud: {error}", file=sys.stderr)
            sys.exit(2)


def init(args: argparse.Namespace) -> Sequence[str]:
    """Write an answers file; prompt for required answers that have no flag."""
    prompt = asking.Prompt(input, asking.DRAFT) if sys.stdin.isatty() else None
    answers, file = asking.write(vars(args), prompt)
    return [f"wrote {file}; look through it, then: {make('cloud-state', answers)}"]


def schema(_: argparse.Namespace) -> Sequence[str]:
    """Print the JSON Schema of an answers file."""
    return [json.dumps(EnvironmentAnswers.model_json_schema(), indent=2)]


def render(args: argparse.Namespace) -> Sequence[str]:
    """Render variables and overlays from the answers, and from Terraform's outputs once they exist."""
    answers = _read(args)
    return [f"wrote {path}" for path in rendering.write(answers, RENDERED / answers.name)]


def state(args: argparse.Namespace) -> Sequence[str]:
    """Print the commands that create the bucket for Terraform's state."""
    return core.script(core.state(_read(args)))


def up(args: argparse.Namespace) -> Sequence[str]:
    """Print the commands that create the infrastructure."""
    return core.script(core.up(_read(args)))


def images(args: argparse.Namespace) -> Sequence[str]:
    """Print the commands that build, sign and push the images."""
    answers = _read(args)
    return core.script(core.images(answers, _infrastructure(answers, args.dry_run)))


def install(args: argparse.Namespace) -> Sequence[str]:
    """Print the commands that install the cluster's software."""
    answers = _read(args)
    infrastructure, digests = _infrastructure(answers, args.dry_run), _digests(answers, args.dry_run)
    return core.script(core.install(_charts(), answers, infrastructure, digests))


def schedule(args: argparse.Namespace) -> Sequence[str]:
    """Print the commands that schedule the nightly runs."""
    answers = _read(args)
    infrastructure, digests = _infrastructure(answers, args.dry_run), _digests(answers, args.dry_run)
    return core.script(core.schedule(answers, infrastructure, digests))


def down(args: argparse.Namespace) -> Sequence[str]:
    """Print the commands that remove every billed resource."""
    answers = _read(args)
    if answers.deletion_protection:
        raise UserError(
            f"{answers.cluster} is protected; set deletion_protection: false in infra/answers/{answers.name}.yaml,"
            f" then: {make('cloud-up', answers)}"
        )
    if args.buckets is None:
        raise UserError(f"BUCKETS is empty; give keep or delete: {make('cloud-down', answers)} BUCKETS=keep")
    return core.script(core.down(_charts(), answers, core.Data(args.buckets)))


ACTIONS = (init, schema, render, state, up, images, install, schedule, down)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nightshift cloud", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="action")
    for action in ACTIONS:
        command = commands.add_parser(action.__name__, help=action.__doc__, description=action.__doc__)
        command.set_defaults(action=action)
        if action is init:
            asking.add_flags(command)
        elif action is not schema:
            command.add_argument("cloud", choices=list(Cloud), help="cloud of the environment")
            command.add_argument("environment", help="name of infra/answers/<cloud>-<environment>.yaml")
        if action in (images, install, schedule):
            command.add_argument(
                "--dry-run", action="store_true", help="print the commands with placeholders for missing outputs"
            )
        if action is down:
            command.add_argument("--buckets", choices=list(core.Data), help="keep or delete the buckets and their data")
    return parser


def _read(args: argparse.Namespace) -> EnvironmentAnswers:
    return questions.read(args.cloud, args.environment)


def _charts() -> Sequence[Mapping[str, object]]:
    rows: Sequence[Mapping[str, object]] = strict_yaml.load_document(CHARTS.read_text())
    return rows


def _infrastructure(answers: EnvironmentAnswers, is_dry: bool) -> Infrastructure:
    file = RENDERED / answers.name / OUTPUTS
    if is_dry and not file.exists():
        # placeholders for resources that Terraform has not created yet
        state = "<store>/state" if answers.size is Size.TRY else ""
        return Infrastructure("<registry>", "<key>", "<store>", "<store>/mlflow", state, volume=[])
    return rendering.read_outputs(answers, _content(file, make("cloud-up", answers)))


def _digests(answers: EnvironmentAnswers, is_dry: bool) -> dict[str, str]:
    file = RENDERED / answers.name / IMAGES
    if is_dry and not file.exists():
        return dict.fromkeys(answers.images, "<digest>")
    return rendering.read_digests(_content(file, make("cloud-images", answers)))


def _content(file: Path, before: str) -> str:
    if not file.exists():
        raise UserError(f"{file} does not exist; first run: {before}")
    return file.read_text()


if __name__ == "__main__":
    main()
