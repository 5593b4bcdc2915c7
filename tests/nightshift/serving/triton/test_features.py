"""The feature step without Triton: texts in, the graph's rows out."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nightshift.contracts import package as contract
from nightshift.http.errors import RequestError
from nightshift.runtime.errors import UserError
from nightshift.serving.triton.features import EventStep, NamedFeatureStep, open_step
from nightshift.tabular.inputs import matrix
from nightshift_testkit.fixtures import INPUTS
from nightshift_testkit.packages import FEATURES
from tests.nightshift.serving.test_events import CHOSEN, EVENTS, LATER, PAST, model, raw
from tests.nightshift.tabular.online.streams import START, config, offline, written

TABULAR = contract.TabularPreprocessing(**dict(INPUTS), features=FEATURES)


def texts(events) -> list[bytes]:
    return [json.dumps(raw(event)).encode() for event in events]


def see(step: EventStep, events) -> np.ndarray:
    return step.transform({"row": texts(events)})["inputs"]


def snapshots(folder: Path, days: int) -> str:
    return written(EVENTS, CHOSEN, days, str(folder / "online" / f"date=2024-03-{days:02}"))


def test_named_features_are_the_rows_of_the_batch() -> None:
    rows = [
        {"amount": 1.5, "customer_count_1d": 2.0, "channel": "it's web"},
        {"channel": "other", "amount": -3.0, "customer_count_1d": 0.0},
    ]
    rows_seen = NamedFeatureStep(TABULAR, 2).transform({"row": [json.dumps(row).encode() for row in rows]})
    assert rows_seen["inputs"].tolist() == matrix(INPUTS, pd.DataFrame(rows)).tolist()


def test_raw_events_are_the_rows_of_the_batch_over_a_newer_snapshot_and_after_a_restart(tmp_path) -> None:
    folder, manifest = str(tmp_path / "state"), model(tmp_path / "model")
    first = snapshots(tmp_path, PAST)
    step = open_step(manifest, 1024, first, folder)
    assert isinstance(step, EventStep)
    matrices = [*see(step, LATER[:20]), *see(step, LATER[20:30])]
    snapshots(tmp_path, PAST + 1)
    step.renew()
    until = (START + PAST + 1) * 86_400_000_000
    rest = [event for event in LATER[30:] if event.time >= until]
    matrices += [*see(step, rest[:10])]
    step.close()
    step = open_step(manifest, 1024, first, folder)
    matrices += [*see(step, rest[10:])]
    step.close()

    expected = np.array(offline(EVENTS, CHOSEN), np.float32)
    row_of = {event.event_id: row for row, event in enumerate(EVENTS)}
    assert np.array(matrices).tolist() == [expected[row_of[event.event_id]].tolist() for event in [*LATER[:30], *rest]]


def test_a_snapshot_with_other_inputs_than_the_models_is_refused(tmp_path) -> None:
    other = config(windows=(1, 3))
    with pytest.raises(UserError, match="has other inputs than the model; run the features step"):
        open_step(model(tmp_path / "model", other), 10, snapshots(tmp_path, PAST), str(tmp_path / "state"))


@pytest.mark.parametrize(("row", "message"), [(b"x", "body is"), (b"[]", "row is []; allowed: an object of columns")])
def test_a_row_that_is_no_object_is_refused(tmp_path, row, message) -> None:
    step = open_step(model(tmp_path / "model"), 10, snapshots(tmp_path, PAST), str(tmp_path / "state"))
    with pytest.raises(RequestError) as error:
        step.transform({"row": [row]})
    step.close()
    assert str(error.value).startswith(message)
