"""What an evaluation shows on the page of its run."""

from pathlib import Path

from nightshift.contracts.section import Estimate, Notice, Section, TableBlock, read_section
from tests.components import samples
from tests.components.evaluation.test_step import CANDIDATES, run, telling, version


def evaluated(folder: Path) -> Section:
    samples.write_model(folder / "model", CANDIDATES)
    samples.write_model(folder / "old", {"first": [0.0, 1.0]})
    run(folder, telling(samples.features()), version(folder / "old"))
    shown = read_section(f"{folder}/evaluation")
    assert shown
    return shown


def test_the_section_compares_the_candidates_with_the_champion_and_says_how_sure_it_is(tmp_path: Path) -> None:
    section = evaluated(tmp_path)
    tables = {block.title: block for block in section.blocks if isinstance(block, TableBlock)}
    metrics = {row.cells[0]: row for row in tables["Metrics on the test days"].rows}
    assert set(metrics) == {"first", "second", "champion, version 3"}
    assert metrics["first"].tag == "selected"
    assert isinstance(metrics["first"].cells[2], Estimate)
    assert isinstance(metrics["second"].cells[2], Estimate)
    assert {"Feature importance (permutation)", "Slices of the test days", "Windows"} <= set(tables)
    assert [block.title for block in section.blocks if block.kind == "chart"] == ["Precision and recall", "Calibration"]
    assert section.highlights[0].note == f"first, champion {metrics['champion, version 3'].cells[2].value:.3f}"


def test_the_outcome_is_the_verdict_and_what_is_unusual_is_a_caveat(tmp_path: Path) -> None:
    folder = tmp_path
    frame = telling(samples.features())
    frame.loc[frame["event_time"].dt.date.astype(str) == "2024-03-18", "label"] = 0
    samples.write_model(folder / "model", CANDIDATES)
    evaluation, verdict = run(folder, frame)
    section = read_section(f"{folder}/evaluation")
    assert section
    assert section.outcome
    assert (section.outcome.label, section.outcome.reasons) == (verdict["decision"], verdict["reasons"])
    (notice,) = [block for block in section.blocks if isinstance(block, Notice)]
    assert notice.title == "Caveats"
    assert notice.sentences == evaluation["notes"]
    assert notice.sentences[0].startswith("1 of 2 test days hold no positive, the first is 2024-03-18")
    assert f"- {notice.sentences[0]}" in (folder / "evaluation" / "model_card.md").read_text()
