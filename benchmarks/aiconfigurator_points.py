"""Writes AIConfigurator's predictions as CSV, for `python -m benchmarks.serving_plans`; run by the oracle's own Python.

That environment holds `aiconfigurator` 0.12.0 and `aiconfigurator-core` 0.12.0 (Apache-2.0), which interpolate tables
of kernels that NVIDIA measured, and nothing of this project. Servers are vLLM's.
"""

import csv
import itertools
import logging
import sys
from collections.abc import Iterator

from aiconfigurator.sdk.backends.factory import get_backend
from aiconfigurator.sdk.config import RuntimeConfig
from aiconfigurator.sdk.config_builders import build_model_config
from aiconfigurator.sdk.inference_session import InferenceSession
from aiconfigurator.sdk.models import get_model
from aiconfigurator.sdk.models.helpers import resolve_context_fmha_by_data
from aiconfigurator.sdk.perf_database import get_database_view, get_latest_database_version

ENGINE = "vllm"
MODELS = {"llama3-8b": "meta-llama/Meta-Llama-3.1-8B", "llama3-70b": "meta-llama/Meta-Llama-3.1-70B"}
SYSTEMS = {"a100-80gb": "a100_sxm", "h100-80gb": "h100_sxm", "h200-141gb": "h200_sxm", "b200-180gb": "b200_sxm"}
PRECISIONS = {"bf16": ("bfloat16", None), "fp8": ("fp8", "fp8")}  # precision of products, and of the cache
TENSOR = (1, 2, 4, 8)
LOADS = ((1024, 256), (4096, 256), (512, 1024), (256, 64), (2048, 512))  # tokens in and out
CONCURRENCY = tuple(2**power for power in range(9))
COLUMNS = (
    "model",
    "gpu",
    "precision",
    "tensor",
    "prompt",
    "output",
    "concurrency",
    "first_token",
    "token",
    "tokens_per_gpu",
)


def main() -> None:
    """Write a row for each point whose weights and cache fit."""
    logging.disable(logging.CRITICAL)
    table = csv.writer(sys.stdout)
    table.writerow(COLUMNS)
    for gpu, system in SYSTEMS.items():
        version = get_latest_database_version(system=system, backend=ENGINE)
        database = get_database_view(system, ENGINE, version, database_mode="SILICON", allow_missing_data=False)
        for model, precision, tensor in itertools.product(MODELS, PRECISIONS, TENSOR):
            if gpu.startswith("a100") and precision == "fp8":
                continue
            session = _start(database, MODELS[model], precision, tensor)
            table.writerows((model, gpu, precision, tensor, *cells) for cells in _points(session))


def _start(database: object, model: str, precision: str, tensor: int) -> InferenceSession:
    products, cache = PRECISIONS[precision]
    config = build_model_config(tensor, 1, 1, tensor, 1, products, cache)
    resolve_context_fmha_by_data(config, model, database, ENGINE, is_context_role=True)
    return InferenceSession(get_model(model, config, ENGINE), database, get_backend(ENGINE))


def _points(session: InferenceSession) -> Iterator[tuple[float, ...]]:
    for (prompt, output), concurrency in itertools.product(LOADS, CONCURRENCY):
        runtime = RuntimeConfig(isl=prompt, osl=output, batch_size=concurrency)
        summary = session.run_agg(runtime, ctx_tokens=prompt)
        if not summary.check_oom() and not summary.check_kv_cache_oom():
            result = summary.get_result_dict()
            seconds = (result["ttft"] / 1e3, result["tpot"] / 1e3)
            yield prompt, output, concurrency, *(f"{value:.5g}" for value in (*seconds, result["tokens/s/gpu"]))


if __name__ == "__main__":
    main()
