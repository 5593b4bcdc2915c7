import pytest
from pydantic import ValidationError

from nightshift.contracts.section import (
    Axis,
    Bars,
    Estimate,
    FoldedBlocks,
    Row,
    Section,
    TableBlock,
    TableColumn,
    Text,
    read_section,
    write_section,
)
from nightshift.runtime.errors import UserError

COLUMNS = [TableColumn(title="Name"), TableColumn(title="Value", format="score")]
SECTION = Section(
    title="Drift",
    weight=30,
    blocks=[
        TableBlock(title="Inputs", columns=COLUMNS, rows=[Row(cells=["a", Estimate(value=1.0, low=0.5, high=2.0)])]),
        FoldedBlocks(title="More", blocks=[Text(sentences=["Nothing else."])]),
    ],
)


def test_a_section_lies_beside_a_file_or_a_folder_and_is_read_back_as_it_was(tmp_path):
    for artifact in (f"{tmp_path}/events", f"{tmp_path}/drift/"):
        assert read_section(artifact) is None
        write_section(artifact, SECTION)
        assert read_section(artifact) == SECTION
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drift.section.json", "events.section.json"]


def test_something_else_in_its_place_is_an_error_that_names_file_and_field(tmp_path):
    (tmp_path / "events.section.json").write_text(
        '{"schema": 1, "title": "Data", "weight": 1, "blocks": [{"kind": "movie"}]}'
    )
    with pytest.raises(
        UserError, match=r"events\.section\.json is no Section of this version: blocks\.0 is .*run the step"
    ):
        read_section(f"{tmp_path}/events")


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(ValidationError, match="has 1 cells, not 2"):
        TableBlock(title="Inputs", columns=COLUMNS, rows=[Row(cells=["a"])])
    with pytest.raises(ValidationError, match="has 2 bars and 1 labels"):
        Bars(title="Days", labels=["today"], heights=[1.0, 2.0])
    with pytest.raises(ValidationError):
        Row(cells=[float("nan")])


@pytest.mark.parametrize(
    ("values", "ticks"),
    [([], [0, 0.25, 0.5, 0.75, 1]), ([0.0], [0, 0.25, 0.5, 0.75, 1]), ([7.0, 61.0], [0, 20, 40, 60, 80])],
)
def test_an_axis_from_zero_ends_at_or_just_beyond_its_values_if_there_are_any(values, ticks):
    assert Axis.from_zero("ms", values).ticks == ticks
