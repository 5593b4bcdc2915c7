"""The audit log below the audit root: a file for each action of a person, written before the action and after it."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from nightshift import registry, storage
from nightshift.contracts.audit_log import LoggedAction
from nightshift.contracts.state import State
from nightshift.runtime.errors import UnavailableError, UserError


@contextmanager
def log_action(state: State, action: str, use_case: str, subject: str, reason: str, by: str = "") -> Iterator[None]:
    """Log what a person does inside the block, and how it ends; an action that cannot be logged does not begin.

    A registry that was named without its audit root has no log.

    Args:
        state: with the audit root.
        action: see `LoggedAction`, as are the others.
        use_case: name in the config.
        subject: what it is done to.
        reason: in the person's words; may be empty.
        by: the person; by default the user of this process.
    """
    if not state.audit:
        yield
        return
    now = datetime.now(UTC)
    entry = LoggedAction(
        action=action, use_case=use_case, subject=subject, at=now, by=by or registry.user(), reason=reason
    )
    name = f"{now:%Y%m%dT%H%M%S%f}-{secrets.token_hex(4)}.json"
    uri = storage.join(state.audit, use_case, "actions", name)
    entry.write(uri)
    try:
        yield
    except (UserError, UnavailableError) as error:
        entry.model_copy(update={"outcome": str(error)}).write(uri)
        raise
    entry.model_copy(update={"outcome": "done"}).write(uri)


def read_actions(state: State, use_case: str, limit: int = 200) -> list[LoggedAction]:
    """Return the newest actions of persons on a use case, oldest first; none where there is no audit root.

    Raises:
        UserError: when one cannot be read.
    """
    if not state.audit:
        return []
    folder = storage.join(state.audit, use_case, "actions")
    return [LoggedAction.read(storage.join(folder, name)) for name in sorted(storage.names(folder))[-limit:]]
