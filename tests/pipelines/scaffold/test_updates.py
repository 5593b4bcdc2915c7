"""An update of a project: the user's changes, those of a version, and both in the same lines."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightshift.runtime.errors import UserError
from pipelines.scaffold import project, updates
from pipelines.scaffold.project import RECORD, ProjectRecord

README, IGNORED = "README.md", ".gitignore"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project.create(tmp_path, "my-case", "fraud", "simulator")
    return tmp_path


def read(folder: Path, file: str) -> str:
    return (folder / file).read_text()


def earlier(folder: Path, **texts: str) -> ProjectRecord:
    """Rewrite the project as if an earlier version had rendered some of its files as these texts."""
    recorded = updates.read_record(folder)
    files = recorded.files | {f".{name}" if name == "gitignore" else f"{name}.md": text for name, text in texts.items()}
    older = recorded.model_copy(update={"version": "0.0.1", "files": files})
    project.write_files(folder, files)
    older.write(str(folder / RECORD))
    return older


def test_the_version_that_wrote_a_project_changes_nothing(folder: Path) -> None:
    (folder / README).write_text("mine")

    assert updates.prepare(folder)[2] == []


def test_a_file_that_nobody_has_edited_becomes_the_new_ones_and_a_deleted_one_stays_away(folder: Path) -> None:
    new = read(folder, IGNORED)
    earlier(folder, gitignore="/old/\n", README="# old\n")
    (folder / README).unlink()

    _, rendered, changes = updates.prepare(folder)
    updates.apply(folder, rendered, changes)

    assert [change.file for change in changes] == [IGNORED]
    assert "-/old/\n" in changes[0].describe()
    assert read(folder, IGNORED) == new and not (folder / README).exists()
    assert updates.prepare(folder)[2] == []
    assert updates.read_record(folder) == rendered


def test_a_file_that_a_version_adds_is_written(folder: Path) -> None:
    recorded = updates.read_record(folder)
    before = {file: text for file, text in recorded.files.items() if file != IGNORED}
    (folder / IGNORED).unlink()

    (change,) = updates.plan_update(folder, recorded.model_copy(update={"files": before}), recorded)

    assert (change.file, change.after) == (IGNORED, recorded.files[IGNORED])


@pytest.mark.slow
def test_the_same_lines_changed_by_both_are_marked_and_none_is_lost(folder: Path) -> None:
    new = read(folder, IGNORED)
    earlier(folder, gitignore="/old/\n")
    (folder / IGNORED).write_text("/mine/\n")

    _, rendered, changes = updates.prepare(folder)
    assert [change.has_conflict for change in changes] == [True]
    assert read(folder, IGNORED) == "/mine/\n"
    updates.apply(folder, rendered, changes)

    assert read(folder, IGNORED) == f"<<<<<<< yours\n/mine/\n||||||| before\n/old/\n=======\n{new}>>>>>>> new\n"
    assert updates.prepare(folder)[2] == []


@pytest.mark.slow
@given(st.data())
def test_changes_of_lines_that_are_apart_are_both_kept(data: st.DataObject) -> None:
    lines = [f"line {number}\n" for number in range(data.draw(st.integers(4, 12)))]
    own = data.draw(st.integers(0, len(lines) - 4))
    other = data.draw(st.integers(own + 3, len(lines) - 1))
    words = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=8)
    yours, new = [*lines], [*lines]
    yours[own], new[other] = f"mine {data.draw(words)}\n", f"theirs {data.draw(words)}\n"
    both = [*yours]
    both[other] = new[other]

    assert updates.merge("".join(yours), "".join(lines), "".join(new)) == ("".join(both), False)


def test_a_folder_without_a_project_and_a_damaged_record_are_refused(folder: Path, tmp_path_factory) -> None:
    with pytest.raises(UserError, match=r"has no \.nightshift\.json; .* nightshift init"):
        updates.read_record(tmp_path_factory.mktemp("empty"))
    (folder / RECORD).write_text('{"schema": 1, "name": "../case"}')
    with pytest.raises(UserError, match=r"\.nightshift\.json is no ProjectRecord of this version"):
        updates.read_record(folder)


def test_a_file_that_is_not_utf_8_is_refused_before_anything_is_written(folder: Path) -> None:
    earlier(folder, gitignore="/old/\n", README="# old\n")
    (folder / IGNORED).write_bytes(b"\xff")

    with pytest.raises(UserError, match=r"\.gitignore is not UTF-8"):
        updates.prepare(folder)

    assert read(folder, README) == "# old\n"
