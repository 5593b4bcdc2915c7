import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift_llm.engine import body, build_vllm_command, parser, read_settings
from nightshift_testkit.processes import started, wait_until
from nightshift_testkit.servers import free_port

pytestmark = pytest.mark.slow
PROMPT = "Each Contributor"
# flags of `vllm serve --help`
VLLM_FLAGS = {
    "--served-model-name",
    "--host",
    "--port",
    "--max-model-len",
    "--max-num-seqs",
    "--tensor-parallel-size",
}


def health(url: str) -> int | None:
    """Return the status of the health check, None where nobody listens."""
    try:
        return httpx.get(f"{url}/health", timeout=60).status_code
    except httpx.TransportError:
        return None


@contextmanager
def engine(model: Path, log: Path, *words: str) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """Start an engine; yield its process and URL."""
    port = free_port()
    flags = ["--model", str(model), "--port", str(port), "--name", "license", *words]
    command = [sys.executable, "-m", "nightshift_llm.engine", *flags]
    with log.open("wb") as output, started(command, stderr=output, stdout=output) as process:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: process.poll() is not None or health(url) == 200, "it serves")
        assert process.poll() is None, log.read_text()
        yield process, url


@pytest.fixture(scope="module")
def url(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("engine") / "log.txt"
    with engine(original, log, "--context", "100000", "--slots", "2", "--threads", "1") as (_, url):
        yield url


def complete(url: str, **fields: object) -> dict[str, object]:
    response = httpx.post(f"{url}/v1/completions", json={"prompt": PROMPT, "temperature": 0} | fields, timeout=60)
    assert response.status_code == 200, response.text
    answer: dict[str, object] = response.json()
    return answer


def test_greedy_answers_are_those_of_transformers(trained: Path, url: str) -> None:
    model, tokens = LlamaForCausalLM.from_pretrained(trained), Tokenizer.from_file(str(trained / "tokenizer.json"))
    ids = torch.tensor([tokens.encode(PROMPT).ids])
    expected = model.generate(ids, max_new_tokens=24, do_sample=False, pad_token_id=1)[0, ids.shape[1] :]
    answer = complete(url, max_tokens=24, ignore_eos=True)
    assert answer["choices"][0]["text"] == tokens.decode(expected.tolist())
    assert answer["usage"]["completion_tokens"] == 24
    assert answer["model"] == "license"


def test_a_chat_is_streamed_by_the_models_template(url: str) -> None:
    request = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 5, "stream": True, "ignore_eos": True}
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=request, timeout=60) as response:
        lines = [line for line in response.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


def test_a_client_that_leaves_frees_its_slot(url: str) -> None:
    request = {"prompt": PROMPT, "max_tokens": 90_000, "stream": True, "ignore_eos": True}
    with httpx.stream("POST", f"{url}/v1/completions", json=request, timeout=60) as response:
        next(response.iter_lines())

    def is_free() -> bool:
        return not any(slot["is_processing"] for slot in httpx.get(f"{url}/slots").json())

    wait_until(is_free, "no slot is busy")
    predicted = re.search(r"^llamacpp:tokens_predicted_total (\d+)", httpx.get(f"{url}/metrics").text, re.MULTILINE)
    assert int(predicted[1]) < 90_000


def test_sigterm_ends_no_stream_and_admits_nobody_new(original: Path, tmp_path: Path) -> None:
    with engine(original, tmp_path / "log.txt", "--context", "4000", "--threads", "1") as (process, url):
        request = {"prompt": PROMPT, "max_tokens": 2500, "stream": True, "ignore_eos": True}
        with httpx.stream("POST", f"{url}/v1/completions", json=request, timeout=60) as response:
            lines = response.iter_lines()
            next(lines)
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: health(url) is None, "connections are refused")
            assert [line for line in lines if line][-1] == "data: [DONE]"
        assert process.wait(60) == 0


def test_what_takes_longer_than_the_drain_is_cut_and_counted(original: Path, tmp_path: Path) -> None:
    words = ["--context", "200000", "--threads", "1", "--slots", "1", "--drain-seconds", "0"]
    with engine(original, tmp_path / "log.txt", *words) as (process, url):
        request = {"prompt": PROMPT, "max_tokens": 150_000, "stream": True, "ignore_eos": True}
        with httpx.stream("POST", f"{url}/v1/completions", json=request, timeout=60) as response:
            lines = response.iter_lines()
            next(lines)
            process.send_signal(signal.SIGTERM)
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)
        assert process.wait(60) == 0
    assert "1 requests are cut, which took longer than --drain-seconds 0" in (tmp_path / "log.txt").read_text()


def test_only_who_bears_the_token_is_answered(original: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    with engine(original, tmp_path / "log.txt", "--token-file", str(tmp_path / "token"), "--context", "64") as (_, url):
        assert httpx.post(f"{url}/v1/completions", json={"prompt": PROMPT}).status_code == 401
        headers = {"Authorization": "Bearer secret"}
        request = {"prompt": PROMPT, "max_tokens": 2}
        assert httpx.post(f"{url}/v1/completions", json=request, headers=headers, timeout=60).status_code == 200


def refused(*words: str) -> str:
    with pytest.raises(UserError) as error:
        body(StepContext(parser().parse_args(words)))
    return str(error.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--slots", "0"], "slots is '0'; give a number from 1 to 4096"),
        (["--host", "192.0.2.7"], "host is '192.0.2.7', which other machines can reach; give --token-file FILE"),
        (["--token-file", "/nowhere"], "token-file is '/nowhere': No such file or directory"),
        (["--engine", "vllm"], "--engine is 'vllm', which is not installed; use its image"),
    ],
)
def test_a_wrong_flag_is_refused_with_what_is_allowed(words: list[str], message: str) -> None:
    assert refused("--model", "model.gguf", *words).startswith(message)


def test_a_port_that_is_taken_and_a_file_that_is_no_model_are_the_users_to_fix(tmp_path: Path, url: str) -> None:
    port = url.rsplit(":", 1)[1]
    command = [sys.executable, "-m", "nightshift_llm.engine", "--model", str(tmp_path / "none.gguf"), "--port"]
    taken = subprocess.run([*command, port], capture_output=True, text=True)
    assert taken.returncode == 2
    assert f"--host and --port are 127.0.0.1:{port}: Address already in use" in taken.stderr
    missing = subprocess.run([*command, "0"], capture_output=True, text=True)
    assert missing.returncode == 2
    assert "none.gguf', which llama.cpp cannot load, see above; name a GGUF file" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_vllm_is_started_by_its_published_flags(tmp_path: Path) -> None:
    args = parser().parse_args(["--model", "folder", "--engine", "vllm", "--gpus", "8", "--context", "32768"])
    command = build_vllm_command(read_settings(args))
    assert command[:3] == ["vllm", "serve", "folder"]
    assert {word for word in command if word.startswith("--")} == VLLM_FLAGS
    assert command[command.index("--tensor-parallel-size") + 1] == "8"
    assert command[command.index("--max-model-len") + 1] == "32768"


def test_the_process_becomes_vllm_and_shows_the_token_to_nobody(tmp_path: Path) -> None:
    program = tmp_path / "vllm"
    program.write_text('#!/bin/sh\necho "$@ ($VLLM_API_KEY)"\n')
    program.chmod(0o755)
    (tmp_path / "token").write_text("secret")
    flags = ["--model", "folder", "--engine", "vllm", "--token-file", str(tmp_path / "token")]
    command = [sys.executable, "-m", "nightshift_llm.engine", *flags]
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    printed = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    assert printed.startswith("serve folder --served-model-name folder --host 127.0.0.1 --port 8080")
    assert printed.strip().endswith("(secret)")
