"""Writes an answers file from flags, and prompts for required answers that are missing."""

import argparse
import json
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
from infra.cloud.rendering import RENDERED
from nightshift.runtime.errors import UserError

Ask = Callable[[str], str]
DRAFT = RENDERED / "init.json"  # typed answers of an init that has written no file yet
ACCOUNTS: Mapping[str, type[AnswerSection]] = {Cloud.AWS: AwsAccount, Cloud.GCP: GoogleProject}


class Prompt:
    """Prompts for answers and keeps what was typed in a file, so that another init offers it again."""

    def __init__(self, ask: Ask, draft: Path) -> None:
        """Read the draft of an earlier init, if there is one.

        Args:
            ask: prints a question and returns the line that was typed.
            draft: file of the typed texts by field, as JSON.
        """
        self._ask, self._draft = ask, draft
        self._typed: dict[str, str] = json.loads(draft.read_text()) if draft.exists() else {}

    def read(self, field: str, description: str) -> str:
        """Return the text of a field; an empty line takes the kept one.

        Raises:
            UserError: when the prompt is interrupted.
        """
        kept = self._typed.get(field, "")
        try:
            text = self._ask(f"{field}, {description}{f' [{kept}]' if kept else ''}: ") or kept
        except (EOFError, KeyboardInterrupt):
            raise UserError(f"stopped at {field}; {self.advice}") from None
        self._typed[field] = text
        self._draft.parent.mkdir(parents=True, exist_ok=True)
        self._draft.write_text(json.dumps(self._typed, indent=2))
        return text

    def forget(self) -> None:
        """Delete the draft."""
        self._draft.unlink(missing_ok=True)

    @property
    def advice(self) -> str:
        """What to do after an init that has written no answers."""
        return f"typed answers are kept in {self._draft}: run the same command again, and Enter takes each"


def add_flags(command: argparse.ArgumentParser) -> None:
    """Add a flag for every answer that is not a mapping: `--budget-monthly` for `budget.monthly`."""
    fields = {path: field for account in ACCOUNTS.values() for path, field in _list_fields(EnvironmentAnswers, account)}
    for path, field in fields.items():
        flag = path.replace(".", "-").replace("_", "-")
        command.add_argument(f"--{flag}", dest=path, metavar="VALUE", help=field.description)


def write(flags: Mapping[str, Any], prompt: Prompt | None, folder: Path = FOLDER) -> tuple[EnvironmentAnswers, Path]:
    """Write an answers file; commas separate the values of a list.

    Args:
        flags: texts by field, None for a missing one.
        prompt: asks for the text of a field; None without a terminal.
        folder: folder to write the file to.

    Raises:
        UserError: when an answer is missing or invalid, or the file exists.
    """
    values = _gather(flags, prompt)
    advice = f"\n{prompt.advice}" if prompt else ""
    try:
        answers = check(lambda: EnvironmentAnswers.model_validate(values), values, "the flags' answer")
    except UserError as error:
        raise UserError(f"{error}{advice}") from None
    file = folder / f"{answers.name}.yaml"
    if file.exists():
        raise UserError(f"{file} exists; edit it, or choose another --environment{advice}")
    file.write_text(render(answers))
    if prompt:
        prompt.forget()
    return answers, file


def _gather(flags: Mapping[str, Any], prompt: Prompt | None) -> dict[str, Any]:
    cloud = flags.get("cloud") or (prompt.read("cloud", "aws or gcp") if prompt else "")
    # empty sections, so that an error names their missing fields
    values: dict[str, Any] = {"cloud": cloud, "account": {}, "budget": {}}
    for path, field in _list_fields(EnvironmentAnswers, ACCOUNTS.get(cloud, AwsAccount)):
        text = flags.get(path) or (values.get(path) if path == "cloud" else None)
        if text is None and prompt and field.is_required():
            text = prompt.read(path, field.description or "")
        if text is not None:
            _put(values, path.split("."), _split(text) if get_origin(field.annotation) is list else text)
    return values


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


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
        elif get_origin(kind) is not dict and not any(map(_is_section, get_args(kind))):
            yield f"{prefix}{name}", field


def _is_section(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, AnswerSection)
