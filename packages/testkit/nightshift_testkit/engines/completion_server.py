"""A reference for OpenAI's `/v1/completions` with `echo` and `logprobs`, as vLLM answers them: computed by torch."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

LOCK = threading.Lock()  # torch's threads are one request's


class ReferenceModel:
    """A Llama, and the completions of OpenAI's API."""

    def __init__(self, folder: Path) -> None:
        self.model = LlamaForCausalLM.from_pretrained(folder).eval()
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def complete(self, request: dict[str, Any]) -> dict[str, Any]:
        prompts = request["prompt"]
        if isinstance(prompts, str) or isinstance(prompts[0], int):
            prompts = [prompts]
        choices = [self.choose(request, prompt) for prompt in prompts]
        return {"choices": [choice | {"index": index} for index, choice in enumerate(choices)]}

    def choose(self, request: dict[str, Any], prompt: str | list[int]) -> dict[str, Any]:
        tokens = self.tokenizer.encode(prompt).ids if isinstance(prompt, str) else prompt
        whole = self.generate(tokens, request["max_tokens"])
        text = self.tokenizer.decode(whole[len(tokens) :])
        for stop in request.get("stop") or []:
            text = text.partition(stop)[0]
        return {"text": text, "logprobs": self.describe(whole) if request.get("echo") else None}

    @torch.inference_mode()
    def generate(self, tokens: list[int], count: int) -> list[int]:
        whole = list(tokens)
        for _ in range(count):
            whole.append(int(self.model(torch.tensor([whole])).logits[0, -1].argmax()))
        return whole

    @torch.inference_mode()
    def describe(self, tokens: list[int]) -> dict[str, Any]:
        shares = self.model(torch.tensor([tokens])).logits[0, :-1].log_softmax(-1)
        own, (highest, names) = shares.gather(1, torch.tensor(tokens[1:])[:, None])[:, 0], shares.max(1)
        tops = [
            {f"token_id:{token}": value, f"token_id:{name}": high}
            for token, value, name, high in zip(tokens[1:], own.tolist(), names.tolist(), highest.tolist(), strict=True)
        ]
        return {"token_logprobs": [None, *own.tolist()], "top_logprobs": [None, *tops]}


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a model; yield the URL."""
    reference = ReferenceModel(folder)

    class CompletionHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with LOCK:
                self.answer(reference.complete(request))

        def do_GET(self) -> None:
            self.answer({"data": [{"id": "reference"}]})

        def answer(self, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), CompletionHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
