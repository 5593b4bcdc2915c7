"""The audit log: what persons have done to the runs and releases of a use case, and why."""

from collections.abc import Mapping

from nightshift.contracts.audit_log import ActionList
from nightshift.contracts.section import TableColumn
from nightshift.registry import audit_log
from nightshift.runtime.errors import UserError
from pipelines.ui.pages.runs import link_use_case
from pipelines.ui.screen import PagePanel, Screen, format_moment, make_row, make_table, shorten
from pipelines.workspace import Workspace


def read(workspace: Workspace, params: Mapping[str, str]) -> ActionList:
    """Return the newest actions of persons on a use case.

    Raises:
        UserError: when the name is a path, or an action cannot be read.
    """
    name = params["name"]
    if "/" in name:
        raise UserError(f"use case is {shorten(name)!r}; a name has no slash")
    return ActionList(use_case=name, actions=audit_log.read_actions(workspace.state, name))


def show(log: ActionList) -> Screen:
    """Return the page of what persons have done."""
    columns = [TableColumn(title=title) for title in ("When (UTC)", "What", "To what", "By", "Reason", "Outcome")]
    rows = [
        make_row(
            [format_moment(entry.at), entry.action, entry.subject, entry.by, entry.reason, entry.outcome],
            tone="neutral" if entry.outcome == "done" else "bad",
        )
        for entry in reversed(log.actions)
    ]
    table = make_table("", columns, rows, "No person has done anything by a command or a page that keeps a log.")
    return Screen(
        title=f"Actions on {shorten(log.use_case)}",
        lead="Audit log, the newest first",
        links=link_use_case(log.use_case),
        panels=[PagePanel("", [table])],
    )
