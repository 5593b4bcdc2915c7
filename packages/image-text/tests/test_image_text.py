import json

import pytest
import yaml

from nightshift.contracts.access_log import OpenedFile
from nightshift.registry import access_log
from nightshift.runtime.errors import UserError
from nightshift_image_text.deidentification.pseudonyms import Pseudonyms
from pipelines.cli.__main__ import parse_command_line

KEY = "k" * 32
SUBJECT = Pseudonyms(KEY.encode()).name("MRN-4711")


@pytest.fixture
def ask(tmp_path, parsed, monkeypatch):
    """Return a function that asks who has seen a patient's files, of two that were opened."""
    monkeypatch.delenv("NIGHTSHIFT_PSEUDONYM_KEY", raising=False)
    config = tmp_path / "scans.yaml"
    config.write_text(yaml.safe_dump(parsed().model_dump(mode="json", exclude_unset=True)))
    for subject in (SUBJECT, "another"):
        opened = [OpenedFile(subject=subject, sha256="0" * 64)]
        access_log.log_opened(str(tmp_path / "audit"), "scans", "ingestion of 2026-11-29", opened)

    def call(patient, *words):
        flags = ["--config", str(config), "--audit", str(tmp_path / "audit"), *words]
        args = parse_command_line(["image-text", "seen", patient, *flags])
        return args.command(args)

    return call


def test_who_has_seen_a_patient_s_files_is_told_by_pseudonym(ask, capsys):
    assert ask(SUBJECT) == 0
    printed = capsys.readouterr().out
    assert "ingestion of 2026-11-29" in printed
    assert f"1 times, files of {SUBJECT} were opened." in printed


def test_who_has_the_key_may_ask_by_patient_id(ask, monkeypatch, capsys):
    monkeypatch.setenv("NIGHTSHIFT_PSEUDONYM_KEY", KEY)
    ask("MRN-4711", "--json")
    document = json.loads(capsys.readouterr().out)
    assert document["subject"] == SUBJECT
    assert [record["files"][0]["subject"] for record in document["records"]] == [SUBJECT]


def test_without_the_key_a_patient_id_is_no_answer_of_nobody(ask):
    with pytest.raises(UserError, match="no environment variable of this name"):
        ask("MRN-4711")
