"""What a day's labels say of two versions: their losses, event by event."""

from collections.abc import Sequence
from datetime import date

from components.release import verdicts
from nightshift import tasks
from nightshift.config import Config
from nightshift.contracts.tables import Table
from nightshift.stats.sequential import LossSums


def compare_day(config: Config, table: Table, day: date, uris: Sequence[str]) -> dict[str, LossSums]:
    """Return the sums of both versions' losses on a day's events, of all and by slice.

    Args:
        config: the use case.
        table: the features.
        day: one of its days.
        uris: folders of the champion and the challenger.

    Raises:
        UserError: when the features are not what both take, or lack a column that slices.
    """
    task, columns = tasks.find(config.task.kind).release, config.release.slices
    champion, challenger = (losses / task.worst for losses in task.losses(table, day, uris))
    slices = task.slices(table, day, columns) if columns else None
    return verdicts.sum_losses(champion, challenger, slices)
