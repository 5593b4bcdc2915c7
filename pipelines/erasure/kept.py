"""What is made of an entity's data and stays after its erasure, with the reason."""

from collections.abc import Iterator
from datetime import date

from nightshift import registry
from nightshift.config import Config
from nightshift.contracts.erasure import KeptData
from nightshift.contracts.state import State

WEIGHTS = (
    "weights and feature samples of models that were trained on the entity's days are sums over all rows and name "
    "nobody; train anew without it: nightshift run, then nightshift gc removes old versions"
)
SOURCE = (
    "the raw source is yours: erase the entity there too; until then ingestion leaves its rows out, by a keyed hash in "
    "the list of erasures"
)
COUNTS = "counts, metrics and charts in reports and records are sums over all rows and name nobody"
DATABASE = "rows of scores in your database have event ids; delete them there"
SERVER = (
    "the tracking server was not searched: models there have no ids, reports of nights may show an event; "
    "delete the runs that read the entity's days there"
)


def list_kept(state: State, config: Config, days: list[date]) -> list[KeptData]:
    """Return what stays.

    Args:
        state: where things lie.
        config: the use case.
        days: on which the entity had events.
    """
    return [KeptData(what=what, names=names, reason=reason) for what, names, reason in _list(state, config, days)]


def _list(state: State, config: Config, days: list[date]) -> Iterator[tuple[str, list[str], str]]:
    trained = [
        str(version.version) for version in registry.versions(state.registry, config.name) if _saw(version, days)
    ]
    if trained:
        yield "versions", trained, WEIGHTS
    yield "reports", [], COUNTS
    yield "source", [], SOURCE
    if config.scoring.database:
        yield "database", [config.scoring.table or ""], DATABASE
    if registry.is_remote(state.registry):
        yield "tracking server", [state.registry], SERVER


def _saw(version: registry.Version, days: list[date]) -> bool:
    first, last = (version.tags.get(tag) for tag in ("train_first", "train_last"))
    return first is None or last is None or any(first <= str(day) <= last for day in days)
