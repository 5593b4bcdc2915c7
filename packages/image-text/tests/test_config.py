"""By which metric a candidate of pairs is chosen."""

import pytest

from nightshift.runtime.errors import UserError


@pytest.mark.parametrize("task", [{}, {"label_separator": ";"}])
def test_a_candidate_is_chosen_by_recall_whatever_separates_findings(parsed, task):
    assert parsed(task=task).task.select_by == "recall_at_5"


def test_a_candidate_may_be_chosen_by_how_findings_are_ranked(parsed):
    assert parsed(task={"select_by": "macro_average_precision"}).task.select_by == "macro_average_precision"


def test_accuracy_chooses_no_candidate_of_pairs(parsed):
    with pytest.raises(UserError, match=r"task\.select_by: Input should be 'recall_at_5' or 'macro_average_precision'"):
        parsed(task={"select_by": "accuracy"})
