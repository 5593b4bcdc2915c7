"""What differs between engines: image, command line, metrics, and how weights are quantized for them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nightshift_perf.planning.serving.fleet import FleetPlan
from nightshift_perf.planning.serving.replica import MEMORY_SHARE

PORT = 8000
WEIGHTS, CONFIG = "/weights", "/config/tensorrt-llm.yaml"
BATCHED_TOKENS = 8192  # of a forward pass at least, both engines' default: no shorter prompt is cut

_COMPRESS = '''\
"""Quantizes the linear layers of a model for vLLM: python quantize.py MODEL FOLDER

Needs a GPU and `pip install llmcompressor=={version}`. Evaluate the result first: `nightshift llm evaluate`.
"""

import sys

from llmcompressor import oneshot
from llmcompressor.modifiers.quantization import {modifier}

model, folder = sys.argv[1:]
recipe = {modifier}(targets="Linear", scheme="{scheme}", ignore=["lm_head"])
oneshot(model=model, recipe=recipe, output_dir=folder{calibration})
'''
_OPTIMIZE = '''\
"""Quantizes a model for TensorRT-LLM: python quantize.py MODEL FOLDER TEXTS

TEXTS has a text a line, some hundreds like what the model is asked. Needs GPUs that hold the model in 16 bits and
`pip install "nvidia-modelopt[hf]"`. Evaluate the result first: `nightshift llm evaluate`.
"""

import sys
from pathlib import Path

import modelopt.torch.quantization as mtq
from modelopt.torch.export import export_hf_checkpoint
from transformers import AutoModelForCausalLM, AutoTokenizer

name, folder, texts = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForCausalLM.from_pretrained(name, dtype="auto", device_map="auto")


def calibrate(network):
    for text in Path(texts).read_text().splitlines():
        network(**tokenizer(text, return_tensors="pt", truncation=True, max_length=2048).to(model.device))


mtq.quantize(model, mtq.{config}, calibrate)
export_hf_checkpoint(model, export_dir=folder)
tokenizer.save_pretrained(folder)
'''
_CALIBRATION = ', dataset="open_platypus", num_calibration_samples=512'


@dataclass(frozen=True)
class EngineMetrics:
    """Names of an engine's metrics, and their path.

    Attributes:
        path: of the page.
        waiting: requests that wait for a place in the batch.
        running: requests in the batch.
        generated: counter of output tokens.
        prompted: counter of prompt tokens.
        first_token: histogram of the seconds to the first token.
        token: histogram of the seconds between tokens.
        cache: share of the cache that is in use.
    """

    path: str
    waiting: str
    running: str
    generated: str
    prompted: str
    first_token: str
    token: str
    cache: str


@dataclass(frozen=True)
class Engine:
    """A server of language models.

    Attributes:
        name: as `--engine` has it.
        image: pinned by its version; nobody here has pulled it.
        metrics: what Prometheus gets.
        command: model name and plan -> command line; the weights are at `WEIGHTS`.
        config: plan -> the file at `CONFIG`; empty where the command line says all.
        token: variable with the bearer token that requests must carry; empty where the engine checks none.
        quantization: precision -> script that makes the weights.
    """

    name: str
    image: str
    metrics: EngineMetrics
    command: Callable[[str, FleetPlan], list[str]]
    config: Callable[[FleetPlan], dict[str, Any]]
    token: str
    quantization: Mapping[str, str]


def _command_vllm(name: str, plan: FleetPlan) -> list[str]:
    flags = {
        "served-model-name": name,
        "host": "0.0.0.0",  # noqa: S104 - a pod's own address
        "port": PORT,
        "tensor-parallel-size": plan.replica.tensor,
        "max-model-len": _longest(plan),
        "max-num-seqs": plan.peak,
        "max-num-batched-tokens": _batched_tokens(plan),
        "gpu-memory-utilization": MEMORY_SHARE,
        "kv-cache-dtype": "fp8" if plan.replica.kept.cached == 1 else "auto",
    }
    return ["vllm", "serve", WEIGHTS, *_words(flags)]


def _command_tensorrt(name: str, plan: FleetPlan) -> list[str]:
    flags = {
        "served_model_name": name,
        "host": "0.0.0.0",  # noqa: S104 - a pod's own address
        "port": PORT,
        "tp_size": plan.replica.tensor,
        "max_seq_len": _longest(plan),
        "max_batch_size": plan.peak,
        "max_num_tokens": _batched_tokens(plan),
        "config": CONFIG,
    }
    return ["trtllm-serve", "serve", WEIGHTS, *_words(flags)]


def _configure_tensorrt(plan: FleetPlan) -> dict[str, Any]:
    return {
        "kv_cache_config": {
            "dtype": "fp8" if plan.replica.kept.cached == 1 else "auto",
            "free_gpu_memory_fraction": MEMORY_SHARE,
        },
        "cuda_graph_config": {"enable_padding": True, "max_batch_size": plan.peak},
        # without these there are no metrics of requests and of the queue
        "return_perf_metrics": True,
        "enable_iter_perf_stats": True,
    }


def _longest(plan: FleetPlan) -> int:
    """Return the tokens of a prompt and its answer at most: the model's, unless the cache holds fewer."""
    return min(plan.replica.model.sequence, plan.replica.cache_tokens)


def _batched_tokens(plan: FleetPlan) -> int:
    return max(BATCHED_TOKENS, plan.demand.request.prompt + plan.peak)


def _words(flags: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in flags.items()]


ENGINES = {
    engine.name: engine
    for engine in (
        Engine(
            name="vllm",
            image="docker.io/vllm/vllm-openai:v0.32.0",
            metrics=EngineMetrics(
                path="/metrics",
                waiting="vllm:num_requests_waiting",
                running="vllm:num_requests_running",
                generated="vllm:generation_tokens_total",
                prompted="vllm:prompt_tokens_total",
                first_token="vllm:time_to_first_token_seconds",  # noqa: S106 - no password
                token="vllm:inter_token_latency_seconds",  # noqa: S106 - no password
                cache="vllm:kv_cache_usage_perc",
            ),
            command=_command_vllm,
            config=lambda _: {},
            token="VLLM_API_KEY",  # noqa: S106 - a variable's name
            quantization={
                "fp8": _COMPRESS.format(
                    version="0.14.0", modifier="QuantizationModifier", scheme="FP8_DYNAMIC", calibration=""
                ),
                "int4": _COMPRESS.format(
                    version="0.14.0", modifier="GPTQModifier", scheme="W4A16", calibration=_CALIBRATION
                ),
            },
        ),
        Engine(
            name="tensorrt-llm",
            image="nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc29",
            metrics=EngineMetrics(
                path="/prometheus/metrics",
                waiting="trtllm_num_requests_waiting",
                running="trtllm_num_requests_running",
                generated="trtllm_generation_tokens_total",
                prompted="trtllm_prompt_tokens_total",
                first_token="trtllm_time_to_first_token_seconds",  # noqa: S106 - no password
                token="trtllm_time_per_output_token_seconds",  # noqa: S106 - no password
                cache="trtllm_kv_cache_utilization",
            ),
            command=_command_tensorrt,
            config=_configure_tensorrt,
            token="",
            quantization={
                "fp8": _OPTIMIZE.format(config="FP8_DEFAULT_CFG"),
                "int4": _OPTIMIZE.format(config="INT4_AWQ_CFG"),
            },
        ),
    )
}
