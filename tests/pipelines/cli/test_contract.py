"""The commands that import and export data contracts."""

from pathlib import Path

import pytest
import yaml

from nightshift.runtime.errors import UserError
from pipelines import configs
from pipelines.cli.__main__ import parse_command_line


def contract(*words: str) -> int:
    args = parse_command_line(["contract", *words])
    code: int = args.command(args)
    return code


def test_a_contract_that_was_exported_is_imported_as_a_config_with_comments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, output = tmp_path / "fraud.odcs.yaml", tmp_path / "fraud.yaml"
    assert contract("export", "--config", "fraud", "--data", "/data", "--owner", "a@b.c", "--output", str(file)) == 0
    assert contract("import", str(file), "--output", str(output)) == 0
    assert configs.load(str(output))["columns"] == configs.load("fraud")["columns"]
    assert "# No counterpart in a config: team\n" in output.read_text()
    assert f"nightshift run --config {output} --data /data" in capsys.readouterr().out
    with pytest.raises(UserError, match="exists; move it away"):
        contract("import", str(file), "--output", str(output))


def test_a_contract_is_printed_where_no_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert contract("export") == 0
    assert yaml.safe_load(capsys.readouterr().out)["kind"] == "DataContract"


def test_a_contract_that_is_not_there_or_no_yaml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        contract("import", str(tmp_path / "no.yaml"))
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(UserError, match=r"bad\.yaml"):
        contract("import", str(tmp_path / "bad.yaml"))
