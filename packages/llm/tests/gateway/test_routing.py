"""The choice of a replica, without replicas."""

from nightshift_llm.gateway.routing import ReplicaLoad, choose

IDLE = ReplicaLoad(missing=50, queued=0, running=0, cache_usage=0.0, known=0)


def test_a_prompt_goes_where_its_prefix_is() -> None:
    assert choose([IDLE, IDLE._replace(missing=2, known=48), IDLE]) == 1


def test_a_prefix_is_given_up_once_the_wait_for_it_is_longer_than_its_prefill() -> None:
    for waiting, choice in ((47, 1), (49, 0)):
        assert choose([IDLE, IDLE._replace(missing=2, queued=waiting)]) == choice
    for running, choice in ((47, 1), (49, 0)):
        assert choose([IDLE, IDLE._replace(missing=2, running=running)]) == choice


def test_a_replica_that_is_out_of_cache_is_the_last_choice() -> None:
    assert choose([IDLE._replace(missing=0, cache_usage=0.97), IDLE._replace(queued=1000)]) == 1
    assert choose([IDLE._replace(cache_usage=0.99), IDLE._replace(missing=0, cache_usage=0.97)]) == 1


def test_new_prompts_are_spread_over_idle_replicas() -> None:
    assert choose([IDLE._replace(known=10), IDLE._replace(known=3), IDLE._replace(known=7)]) == 1
