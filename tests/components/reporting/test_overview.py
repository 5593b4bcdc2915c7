"""The overview in Markdown that Kubeflow's page shows."""

import pytest

pytestmark = pytest.mark.slow


def test_the_overview_has_the_headline_the_outcomes_and_the_key_tables(sample):
    sample.report()
    text = sample.file("overview").read_text()
    assert text.startswith("# handbook: Version 3 is live\n")
    assert f"Run {sample.run}, logical date 2018-08-14, on cpu" in text
    assert text.count("trained on older days") == 1
    assert "- Drift: **stable**. Signal 1 is where it was." in text
    assert "| random_forest (selected) | 0.658 [0.61, 0.70] |" in text
    assert "| mlp | 0.643 |" in text
    assert "Precision and recall" not in text


def test_after_a_failure_the_overview_says_what_is_missing(sample):
    sample.file("deployment").unlink()
    sample.report()
    text = sample.file("overview").read_text()
    assert text.startswith("# handbook: The run is incomplete\n")
    assert "- No result from deployment." in text
