"""Writes a file of answers: from flags, and by asking a person for what has no default."""

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
    check,
    render,
)
from nightshift.errors import UserError

Ask = Callable[[str], str]
ACCOUNTS: Mapping[str, type[AnswerSection]] = {Cloud.AWS: AwsAccount, Cloud.GCP: GoogleProject}


def add_flags(command: argparse.ArgumentParser) -> None:
    """Add a flag for every answer that is no mapping: `budget.monthly` is `--budget-monthly`."""
    fields = {path: field for account in ACCOUNTS.values() for path, field in _list_fields(EnvironmentAnswers, account)}
    for path, field in fields.items():
        flag = path.replace(".", "-").replace("_", "-")
        command.add_argument(f"--{flag}", dest=path, metavar="VALUE", help=field.description)


def write(flags: Mapping[str, Any], ask: Ask | None, folder: Path = FOLDER) -> tuple[EnvironmentAnswers, Path]:
    """Write a file of answers; several values of one are apart by commas.

    Args:
        flags: field -> its text, or None.
        ask: asks a person for the text of a field; None when there is nobody.
        folder: of the file.

    Raises:
        UserError: when an answer is missing or wrong, or the file is there.
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
    # so that what is missing of a section is named
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
    """Yield the fields that hold no others, by path; `account` is the section of a cloud's own."""
    for name, field in section.model_fields.items():
        kind = account if AwsAccount in get_args(field.annotation) else field.annotation
        if isinstance(kind, type) and issubclass(kind, AnswerSection):
            yield from _list_fields(kind, account, f"{prefix}{name}.")
        elif get_origin(kind) is not dict:
            yield f"{prefix}{name}", field
