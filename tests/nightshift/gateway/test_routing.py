"""The choice of a replica, without replicas."""

from dataclasses import replace

from nightshift.gateway.routing import RUNNING_BLOCKS, ReplicaLoad, choose

IDLE = ReplicaLoad(missing=50, queued=0, running=0, cache_usage=0.0, known=0)


def test_a_prompt_goes_where_its_prefix_is() -> None:
    assert choose([IDLE, replace(IDLE, missing=2, known=48), IDLE]) == 1


def test_a_prefix_is_given_up_once_the_wait_for_it_is_longer_than_its_prefill() -> None:
    for waiting, choice in ((47, 1), (49, 0)):
        assert choose([IDLE, replace(IDLE, missing=2, queued=waiting)]) == choice
    busy = 48 // RUNNING_BLOCKS
    for running, choice in ((busy - 1, 1), (busy + 1, 0)):
        assert choose([IDLE, replace(IDLE, missing=2, running=running)]) == choice


def test_a_replica_that_is_out_of_cache_is_the_last_choice() -> None:
    assert choose([replace(IDLE, missing=0, cache_usage=0.97), replace(IDLE, queued=1000)]) == 1
    assert choose([replace(IDLE, cache_usage=0.99), replace(IDLE, missing=0, cache_usage=0.97)]) == 1


def test_new_prompts_are_spread_over_idle_replicas() -> None:
    assert choose([replace(IDLE, known=10), replace(IDLE, known=3), replace(IDLE, known=7)]) == 1
