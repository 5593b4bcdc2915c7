"""Memory of a replica, and the seconds of its passes, against what no GPU can beat."""

from dataclasses import replace

import pytest

from nightshift_perf.hardware import gpu
from nightshift_perf.planning.serving.efficiency import find_efficiency
from nightshift_perf.planning.serving.replica import ForwardPass, ServingReplica
from nightshift_perf.planning.serving.shapes import read_shape

LLAMA = read_shape("llama3-70b")
H100 = gpu("h100-80gb")


def test_the_weights_and_the_cache_of_70b_are_those_of_its_configuration() -> None:
    alone = ServingReplica(LLAMA, H100, "bf16", 1)

    assert alone.weights == pytest.approx(70.55e9 * 2, rel=1e-3)
    assert alone.token_bytes == 2 * 80 * 8 * 128 * 2  # keys and values, layers, heads of a group, width, bytes
    assert alone.cache_tokens == 0

    shared = ServingReplica(LLAMA, H100, "fp8", 8)
    assert shared.weights == pytest.approx((alone.weights / 2 + LLAMA.embeddings) / 8)
    assert shared.token_bytes == alone.token_bytes / 16
    assert shared.cache_tokens * shared.token_bytes < 0.9 * H100.memory - shared.weights


def test_a_token_takes_longer_than_reading_the_weights_and_a_prompt_longer_than_its_flops() -> None:
    replica = ServingReplica(LLAMA, H100, "bf16", 4)
    read = replica.weights - 2 * LLAMA.vocabulary * LLAMA.hidden / 4  # one row of the embeddings only

    assert replica.estimate_seconds(ForwardPass(0, 1, 1024)) > read / H100.bandwidth
    assert replica.estimate_seconds(ForwardPass(4096, 0)) > 2 * 70e9 * 4096 / 4 / H100.peak("bf16")


def test_long_prompts_on_one_gpu_reach_the_shares_of_the_table() -> None:
    model = replace(read_shape("llama3-8b"), layers=1, vocabulary=1)
    seconds = ServingReplica(model, H100, "bf16", 1).estimate_seconds(ForwardPass(16384, 0))

    shares = find_efficiency(H100)
    products = 2 * 16384 * 218e6 / (H100.peak("bf16") * shares.products["bf16"])
    attention = 2 * 16384**2 * 4096 / (H100.peak("bf16") * shares.attention)
    assert products + attention < seconds < 1.1 * (products + attention)


def test_a_pass_takes_longer_the_more_it_computes_and_the_fewer_gpus_share_it() -> None:
    steps = [
        ForwardPass(0, 1, 1024),
        ForwardPass(0, 64, 1024),
        ForwardPass(0, 64, 8192),
        ForwardPass(1024, 63, 8192),
        ForwardPass(4096, 63, 8192),
    ]
    seconds = [ServingReplica(LLAMA, H100, "bf16", 4).estimate_seconds(step) for step in steps]
    by_gpus = [ServingReplica(LLAMA, H100, "bf16", tensor).estimate_seconds(steps[3]) for tensor in (1, 2, 4, 8)]

    assert seconds == sorted(seconds)
    assert by_gpus == sorted(by_gpus, reverse=True)
    assert by_gpus[0] < 8 * by_gpus[-1]  # all-reduces, and kernels that do not become shorter


def test_an_architecture_without_points_is_said_to_be_not_fitted() -> None:
    assert find_efficiency(H100).is_fitted
    assert not find_efficiency(gpu("l4")).is_fitted
