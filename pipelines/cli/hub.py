"""The command that pushes models to the Hugging Face Hub."""

import argparse

from nightshift import kinds, registry
from nightshift.contracts import package
from nightshift.hub import cards
from nightshift.hub.cards import CardMetadata
from nightshift.hub.connection import SCHEME, HubReference
from nightshift.hub.publishing import HubVersion, publish
from nightshift.registry import Version
from nightshift.runtime.errors import UserError
from pipelines.cli import options


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "push", push.__doc__)
    command.add_argument("version", type=int, help="number of the version, from `nightshift models`")
    command.add_argument("repository", help="hf://organization/name, which is created when it is new")
    command.add_argument("--public", action="store_true", help="let everybody see it (default: a private repository)")
    options.add_workspace(command)
    options.add_registry(command)
    options.add_use_case(command)
    command.set_defaults(command=push)


def push(args: argparse.Namespace) -> int:
    """Push a registered model version to the Hugging Face Hub, to a private repository by default."""
    reference = HubReference.parse("repository", args.repository)
    if reference.revision:
        raise UserError(f"repository: {args.repository!r} names a revision; the version's number becomes the tag")
    root = options.select_state(args).registry
    version = registry.find(root, registry.choose_name(root, options.use_case(args)), args.version)
    published = HubVersion(version.version, version.uri, render_readme(version, registry.read_card(root, version)))
    verb = "holds" if publish(published, reference, args.public) else "already holds"
    return options.say(f"{SCHEME}{reference.name}@{published.tag} {verb} version {version.version} of {version.name}")


def render_readme(version: Version, card: str) -> str:
    """Return the README.md of a version: its card, with what the Hub shows and filters by."""
    kind = package.load(version.uri).kind
    promise = version.tags.get("promise", "")
    metrics = {promise: float(version.tags[promise])} if promise in version.tags else {}
    metadata = CardMetadata(version.name, kinds.find(kind).pipeline_tag, ["nightshift", kind], metrics)
    return cards.render(metadata, card or f"# {version.name}, version {version.version}\n")
