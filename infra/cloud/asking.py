"""Writes an answers file from flags, and prompts for required answers that are missing."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from infra.cloud.answers import (
    FOLDER,
    AnswerSection,
    AwsAccount,
    Cloud,
    EnvironmentAnswers,
    GoogleProject,
    Waiver,
    check,
    render,
)
from nightshift.runtime.errors import UserError

Ask = Callable[[str], str]
ACCOUNTS: Mapping[str, type[AnswerSection]] = {Cloud.AWS: AwsAccount, Cloud.GCP: GoogleProject}


def add_flags(command: argparse.ArgumentParser) -> None:
    """Add a flag for every answer that is not a mapping: `--budget-monthly` for `budget.monthly`."""
    fields = {path: field for account in ACCOUNTS.values() for path, field in _list_fields(EnvironmentAnswers, account)}
    for path, field in fields.items():
        flag = path.replace(".", "-").replace("_", "-")
        command.add_argument(f"--{flag}", dest=path, metavar="VALUE", help=field.description)


def write(flags: Mapping[str, Any], ask: Ask | None, folder: Path = FOLDER) -> tuple[EnvironmentAnswers, Path]:
    """Write an answers file; commas separate the values of a list.

    Args:
        flags: texts by field, None for a missing one.
        ask: prompts for the text of a field; None without a terminal.
        folder: folder to write the file to.

    Raises:
        UserError: when an answer is missing or invalid, or the file exists.
    """
    values = _gather(flags, ask)
    answers = check(lambda: EnvironmentAnswers.model_validate(values), values, "the flags' answer")
    file = folder / f"{answers.name}.yaml"
    if file.exists():
        raise UserError(f"{file} exists; edit it, or choose another --environment")
    file.write_text(render(answers))
    return answers, file


def _gather(flags: Mapping[str, Any], ask: Ask | None) -> dict[str, Any]:
    cloud = flags.get("cloud") or (ask("cloud, aws or gcp: ") if ask else "")
    # empty sections, so that an error names their missing fields
    values: dict[str, Any] = {"cloud": cloud, "account": {}, "budget": {}}
    for path, field in _list_fields(EnvironmentAnswers, ACCOUNTS.get(cloud, AwsAccount)):
        text = flags.get(path) or (values.get(path) if path == "cloud" else None)
        if text is None and ask and field.is_required():
            text = ask(f"{path}, {field.description}: ")
        if text is not None:
            _put(values, path.split("."), text.split(",") if get_origin(field.annotation) is list else text)
    return values


def _put(values: dict[str, Any], path: list[str], value: Any) -> None:
    *sections, name = path
    for section in sections:
        values = values.setdefault(section, {})
    values[name] = value


def _list_fields(
    section: type[AnswerSection], account: type[AnswerSection], prefix: str = ""
) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the leaf fields by path; `account` is the cloud's own section."""
    for name, field in section.model_fields.items():
        kind = account if AwsAccount in get_args(field.annotation) else field.annotation
        if isinstance(kind, type) and issubclass(kind, AnswerSection):
            yield from _list_fields(kind, account, f"{prefix}{name}.")
        elif get_origin(kind) is not dict and get_args(kind) != (Waiver,):
            yield f"{prefix}{name}", field
