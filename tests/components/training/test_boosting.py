"""A boosting that is interrupted ends with the trees that it would have had."""

import os
import signal
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import xgboost
from xgboost.callback import TrainingCallback

from nightshift.runtime.errors import PreemptedError
from nightshift.tasks.fitting import FitSpec
from nightshift.tasks.tabular import boosting, estimators
from tests.components.training import samples

MATRIX, LABELS = samples.matrix()
SHORT = {"n_estimators": 12, "max_depth": 3}


def job(folder: str = "", **parameters) -> FitSpec:
    return FitSpec("task.candidates.mine.parameters", parameters, 0, 2, "cpu", checkpoints=folder)


class Terminates(TrainingCallback):
    """Something that sends this process SIGTERM during the fifth round."""

    def after_iteration(self, model, epoch, evals_log):
        if epoch == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return False


def preempt(folder: Path, parameters: dict, matrix: np.ndarray, labels: np.ndarray) -> None:
    """Leave what a boosting of these rows has saved when it was preempted in its fifth round."""
    root = estimators._folder(job(str(folder)), matrix, labels)
    message = r"round 5 is saved in .*booster\.ubj"
    with pytest.raises(PreemptedError, match=message), boosting.keep_checkpoints(root, 1000) as (saving, _):
        model = xgboost.XGBClassifier(**parameters, random_state=0, n_jobs=2, callbacks=[Terminates(), saving])
        model.fit(matrix, labels)


@pytest.mark.parametrize("parameters", [SHORT, {}, {"n_estimators": 5}])
def test_a_boosting_that_is_preempted_adds_the_rounds_that_are_left(tmp_path, parameters, caplog):
    caplog.set_level("INFO", "nightshift")
    preempt(tmp_path, parameters, MATRIX, LABELS)

    resumed = estimators.fit("xgboost", job(str(tmp_path), **parameters), MATRIX, LABELS)

    assert resumed.graph == estimators.fit("xgboost", job(**parameters), MATRIX, LABELS).graph
    assert "resuming after round 5" in caplog.messages


@pytest.mark.parametrize(
    "damage", [lambda whole: b"", lambda whole: whole[:-1], lambda whole: whole[:200] + b"X" + whole[201:]]
)
def test_a_boosting_whose_checkpoint_is_damaged_starts_anew_and_says_so(tmp_path, damage, caplog):
    preempt(tmp_path, SHORT, MATRIX, LABELS)
    (file,) = tmp_path.rglob("booster.ubj")
    file.write_bytes(damage(file.read_bytes()))

    fresh = estimators.fit("xgboost", job(str(tmp_path), **SHORT), MATRIX, LABELS)

    assert fresh.graph == estimators.fit("xgboost", job(**SHORT), MATRIX, LABELS).graph
    assert "booster.ubj is damaged: the boosting starts anew" in caplog.text


def test_other_rows_do_not_resume_it(tmp_path):
    preempt(tmp_path, SHORT, MATRIX[:500], LABELS[:500])

    fresh = estimators.fit("xgboost", job(str(tmp_path), **SHORT), MATRIX, LABELS)

    assert fresh.graph == estimators.fit("xgboost", job(**SHORT), MATRIX, LABELS).graph


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_are_told_from_others_without_a_copy_of_them(order):
    matrix, labels = np.ones((200_000, 20), dtype=np.float32, order=order), np.zeros(200_000, dtype=np.int8)
    tracemalloc.start()
    root = estimators._folder(job("kept"), matrix, labels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 1e5 < matrix.nbytes
    matrix[0, 0], labels[0] = 2, 1
    assert estimators._folder(job("kept"), matrix, labels) != root


def test_a_boosting_is_saved_when_its_time_has_come_and_goes_on(tmp_path):
    with boosting.keep_checkpoints(str(tmp_path), 0) as (saving, none):
        xgboost.XGBClassifier(**SHORT, callbacks=[saving]).fit(MATRIX, LABELS)
    with boosting.keep_checkpoints(str(tmp_path), 0) as (_, saved):
        assert saved.num_boosted_rounds() == 12
    assert none is None
