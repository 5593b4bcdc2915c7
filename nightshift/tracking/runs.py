"""MLflow runs of an experiment: each exists once, and what is logged again is there once."""

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from nightshift import storage
from nightshift.runtime.errors import UnavailableError

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Run

ID = "nightshift.id"  # tag by which a run is looked for; a hash, since MLflow's filters cannot escape quotes
CLAIM = "nightshift.claim"  # tag with the same, of a run that does not count yet too
VERSION = "version"  # tag with the number of the version that a run has registered
LOSS = "loss"
LONGEST = 5000  # characters of a value; MLflow refuses parameters of more than 6000, and tags of more than 8000
BATCH = 900  # metrics of a request; MLflow takes 1000
CONFLICT = "IntegrityError"  # in MLflow's message, of SQLAlchemy
TRIES = 20
PATIENCE = 8  # tries after which the claims of others count as dead; what these write then fails
PAUSE = 0.5  # seconds, at most, until the next try
START = re.compile(r"\d{8}T\d{12}(?=$|/)")  # at the end of a run's name


@dataclass(frozen=True)
class RunValues:
    """What a run shows.

    Attributes:
        parameters: name -> value.
        metrics: name -> value.
        tags: name -> value.
        losses: step, and loss.
    """

    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    losses: Sequence[tuple[int, float]] = ()


def find_experiment(client: "MlflowClient", name: str) -> str:
    """Return the id of an experiment, which is created when it is new."""
    from mlflow.exceptions import MlflowException

    if known := client.get_experiment_by_name(name):
        return str(known.experiment_id)
    try:
        return str(client.create_experiment(name))
    except MlflowException:
        known = client.get_experiment_by_name(name)  # by another process meanwhile
        if known is None:
            raise
        return str(known.experiment_id)


def find_or_create(
    client: "MlflowClient", experiment: str, key: str, name: str, tags: Mapping[str, str] | None = None
) -> "Run":
    """Return the run of a key, which is created once, however many processes ask for it at the same time.

    MLflow has no conditional writes. A new run is a claim at first, which nobody else uses. It gets its identity if
    there is no other claim; otherwise it is removed, and tried again. A claim that stays is of a killed process.

    Args:
        client: of the server.
        experiment: its id.
        key: the run's identity.
        name: the run's name, for people.
        tags: of a new run.

    Raises:
        UnavailableError: when others claim it all the time.
    """
    identity = storage.fingerprint(key)
    labels = {CLAIM: identity, **(tags or {})}
    for attempt in range(TRIES):
        if runs := client.search_runs([experiment], f"tags.`{ID}` = '{identity}'", max_results=1):
            return runs[0]
        own = client.create_run(experiment, start_time=_read_start(key), tags=labels, run_name=name)
        claims = client.search_runs([experiment], f"tags.`{CLAIM}` = '{identity}'")
        if len(claims) == 1:
            client.set_tag(own.info.run_id, ID, identity)
            return own
        dead = [run for run in claims if ID not in run.data.tags] if attempt >= PATIENCE else [own]
        for run in dead:
            client.delete_run(run.info.run_id)
        time.sleep(random.uniform(0, PAUSE))  # noqa: S311 - writers that meet are spread
    raise UnavailableError(f"run {name} was claimed by others {TRIES} times in a row; run the same command again")


def update(client: "MlflowClient", run: "Run", values: RunValues) -> None:
    """Have a run show values; those that it shows already are not logged again.

    A parameter keeps its first value in MLflow, so what another attempt has changed is a tag of the same name.
    """
    retry_conflict(lambda: _log(client, client.get_run(run.info.run_id), values))


def retry_conflict(write: Callable[[], object]) -> None:
    """Write again what MLflow's database has refused since another process wrote the same at the same time."""
    from mlflow.exceptions import MlflowException

    for attempt in range(TRIES):
        try:
            write()
        except MlflowException as error:
            if CONFLICT not in str(error) or attempt == TRIES - 1:
                raise
        else:
            return


def _log(client: "MlflowClient", run: "Run", values: RunValues) -> None:
    from mlflow.entities import Param, RunTag

    known, parameters = run.data.params, _shorten(values.parameters)
    new = [Param(name, value) for name, value in parameters.items() if name not in known]
    changed = {name: value for name, value in parameters.items() if known.get(name, value) != value}
    tags = _shorten(values.tags) | changed
    metrics = list(_list_changed(run, values))
    client.log_batch(run.info.run_id, metrics[:BATCH], new, [RunTag(name, value) for name, value in tags.items()])
    for first in range(BATCH, len(metrics), BATCH):
        client.log_batch(run.info.run_id, metrics[first : first + BATCH])


def _list_changed(run: "Run", values: RunValues) -> Iterator["Metric"]:
    """Yield the metrics to log; new ones are at the run's time, so that two processes log the same."""
    from mlflow.entities import Metric

    known, start, now = run.data.metrics, run.info.start_time, int(time.time() * 1000)
    for name, value in values.metrics.items():
        if known.get(name) != value:
            yield Metric(name, value, now if name in known else start, 0)
    if values.losses and known.get(LOSS) != values.losses[-1][1]:
        for step, value in values.losses:
            yield Metric(LOSS, value, start, step)


def _shorten(values: Mapping[str, str]) -> dict[str, str]:
    return {name: value[:LONGEST] for name, value in values.items()}


def _read_start(run: str) -> int | None:
    """Return when a run began by its name, in milliseconds of Unix time; None where it does not say."""
    match = START.search(run)
    if match is None:
        return None
    return int(datetime.strptime(match[0], "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC).timestamp() * 1000)
