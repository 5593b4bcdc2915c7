import json
import subprocess
import sys
from pathlib import Path

import pytest

from nightshift.contracts.verdict import Verdict
from nightshift.runtime.errors import UserError
from packages.llm.tests import models
from packages.llm.tests.test_gate import double_scales
from pipelines.cli.__main__ import parse_command_line


def call(*words: str) -> int:
    args = parse_command_line(["llm", *words])
    code: int = args.command(args)
    return code


def test_a_model_is_converted_quantized_and_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models.train_llama(tmp_path / "model", models.READ, steps=40)
    original, quantized = tmp_path / "model.gguf", tmp_path / "q.gguf"
    (tmp_path / "documents.txt").write_text("\n".join(text.replace("\n", " ") for text in models.UNREAD))
    assert call("convert", str(tmp_path / "model"), str(original)) == 0
    assert call("quantize", str(original), str(quantized), "--form", "Q4_0") == 0
    assert f"{quantized}: 0.1 MB" in capsys.readouterr().out
    words = [
        "--documents",
        str(tmp_path / "documents.txt"),
        "--output",
        str(tmp_path / "verdict"),
        "--context",
        "128",
        "--threads",
        "1",
    ]
    call("judge", str(original), str(quantized), *words, "--json")
    printed = json.loads(capsys.readouterr().out)
    verdict = Verdict.read(str(tmp_path / "verdict" / "verdict.json"))
    assert printed == verdict.model_dump(mode="json")
    assert verdict.value("added_bits_per_byte") < 0.02
    for layer in (0, 1) * 5:  # by 32, so that a barely trained model suffers too
        double_scales(quantized, layer)
    assert call("judge", str(original), str(quantized), *words) == 2
    assert "fail: Bits per byte went from" in capsys.readouterr().out
    assert "differ most from the original" in Verdict.read(str(tmp_path / "verdict" / "verdict.json")).reasons[-1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--documents", "nowhere.txt"], "documents nowhere.txt is not a file; give a file with one text per line"),
        (["--documents", __file__, "--context", "1"], "--context is 1 and --threads 2; give 2 or more and 1 or more"),
    ],
)
def test_a_wrong_flag_is_refused_with_what_is_allowed(words: list[str], message: str) -> None:
    with pytest.raises(UserError) as error:
        call("judge", "a.gguf", "b.gguf", "--output", "o", *words)
    assert str(error.value) == message


@pytest.mark.parametrize("words", ["judge a.gguf b.gguf --output o --documents {}", "suite {} folder"])
def test_texts_in_another_encoding_are_refused_with_their_line(words: str, tmp_path: Path) -> None:
    documents = tmp_path / "documents.txt"
    documents.write_bytes("Ein Satz.\nEin größerer Satz.\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"documents.txt, line 2 is not UTF-8; convert the file.*iconv"):
        call(*words.format(documents).split())


@pytest.mark.slow
def test_a_mistake_ends_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipelines.cli", "llm", "convert", str(tmp_path), str(tmp_path / "m.gguf")]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "model.safetensors is missing" in ended.stderr
