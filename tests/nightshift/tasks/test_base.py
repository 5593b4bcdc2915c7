"""Questions to a task, the defaults of one that does not answer them, and metrics that are declared once."""

import importlib
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nightshift import tasks
from nightshift.kinds import TaskKind, load_kinds
from nightshift.runtime.errors import UserError
from nightshift.stats.ranking import RankingMetrics
from nightshift.tasks import StepQuestion, Task
from nightshift.tasks.base.metrics import Direction, Metric
from nightshift.tasks.metric_reports import describe_highlight, list_measures, render_metrics, tabulate_metrics
from nightshift.tasks.tabular.metrics import METRICS
from nightshift.tasks.trials import Contender

ROOT = Path(__file__).parents[3]
QUESTIONS = [name for name, value in vars(Task).items() if isinstance(value, StepQuestion)]
MINE = Task(TaskKind("mine", ("nightshift.stats",), "", ""))  # a package without a module of a task
NEW = Metric("waste", "Waste", Direction.LOWER, resample=True)


@pytest.mark.parametrize("kind", load_kinds().values(), ids=list(load_kinds()))
def test_every_task_answers_all_that_steps_ask(kind: TaskKind) -> None:
    is_labeled = kind.name != "language-modeling"
    for question in QUESTIONS:
        assert (question == "labels" and not is_labeled) or getattr(Task(kind), question)


def test_an_unknown_task_is_refused_with_those_there_are() -> None:
    with pytest.raises(UserError, match=r"task\.kind: is 'tabulr'; allowed: .*; did you mean 'tabular'"):
        tasks.find("tabulr")


def test_a_task_without_a_module_has_the_defaults_of_its_questions() -> None:
    assert MINE.ingestion.rules(None) == {}
    assert MINE.serving.stop("registry", "mine") is False


def test_questions_that_a_task_has_to_answer_are_named() -> None:
    with pytest.raises(UserError, match=r"'mine' does not say comparison of DriftTask; add a module 'drift' with a "):
        assert MINE.drift


def test_a_question_that_a_third_party_task_does_not_know_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "third_party"))
    task = Task(importlib.import_module("shop_counts").TASK)
    assert "networks" not in vars(type(task.training))
    assert task.training.networks(None) == {}
    assert task.serving.find_url("registry", "shops") is None


def contender(waste: float) -> Contender:
    resamples = {"waste": np.array([waste - 0.1, waste + 0.1])}
    return Contender(sha256="", trained_until="", metrics={"waste": waste}, resamples=resamples, version=7)


def test_a_new_metric_is_in_the_gate_the_report_and_the_card_by_its_declaration() -> None:
    champion = contender(0.4)
    candidates = {"wasteful": contender(0.5), "thrifty": contender(0.3)}
    trial: Any = SimpleNamespace(
        candidates=candidates,
        challenger=candidates["thrifty"],
        model=SimpleNamespace(selected="thrifty"),
        rival=champion,
    )
    (measure,) = list_measures(candidates["thrifty"], [NEW], {"waste": 0.6})
    assert (measure.name, measure.value, measure.limit, measure.higher_is_better) == ("waste", 0.3, 0.6, False)
    assert measure.interval
    table = tabulate_metrics(trial, [NEW], NEW)
    assert [column.title for column in table.columns] == ["Candidate", "Waste"]
    assert [row.cells[0] for row in table.rows] == ["thrifty", "wasteful", "champion, version 7"]
    assert render_metrics(trial, [NEW])[0] == "| Candidate | Waste |"
    assert describe_highlight(trial, NEW).note == "thrifty, champion 0.400"


def test_all_metrics_of_tables_are_declared_in_the_order_in_which_they_are_measured() -> None:
    assert [metric.name for metric in METRICS] == list(RankingMetrics.__annotations__)


def test_dashboards_draw_declared_metrics_only() -> None:
    text = (ROOT / "infra" / "monitoring" / "dashboards" / "models.json").read_text()
    drawn = set(re.findall(r"nightshift_(?:training|evaluation)_(?:champion_)?([a-z_0-9]+)", text))
    kinds = load_kinds().values()
    declared = {metric.name for kind in kinds for metric in Task(kind).metrics.metrics}
    assert drawn
    assert drawn <= declared | {"passed"}
