"""The command that delivers notifications, or tests receivers."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines import configs
from pipelines.cli.__main__ import parse_command_line


def notify(folder: Path, receivers: list[dict[str, Any]], *flags: str) -> int:
    """Run the command on a config with receivers; return its exit code."""
    config = configs.load(configs.DEFAULT) | {"notify": {"receivers": receivers}}
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    args = parse_command_line(["notify", "--config", str(file), "--workspace", str(folder), *flags])
    code: int = args.command(args)
    return code


@pytest.mark.parametrize(("url", "code"), [("http://127.0.0.1:1/geheim", 1), ("ftp://geheim", 2), ("", 2)])
def test_a_test_fails_for_a_receiver_that_is_down_or_a_wrong_url_and_keeps_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str, code: int
) -> None:
    monkeypatch.setenv("NIGHTSHIFT_NOTIFY_X", url)
    assert notify(tmp_path, [{"variable": "NIGHTSHIFT_NOTIFY_X"}], "--test") == code
    printed = capsys.readouterr()
    assert "NIGHTSHIFT_NOTIFY_X" in printed.err
    assert "geheim" not in printed.out + printed.err


def test_with_nothing_pending_nothing_is_sent_or_written(tmp_path: Path) -> None:
    assert notify(tmp_path, [{"variable": "NIGHTSHIFT_NOTIFY_X"}]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]
