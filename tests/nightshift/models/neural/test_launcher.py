"""How a launcher meets those of other machines."""

from nightshift.models.neural import processes
from nightshift.models.neural.__main__ import meet
from nightshift_testkit.servers import free_port

VARIABLES = {"PET_MASTER_ADDR": "job-node-0-0.job", "PET_MASTER_PORT": "29500", "PET_NNODES": "2"}


def test_the_first_machine_by_its_number_keeps_the_store_at_which_all_wait_half_an_hour_for_each_other():
    for rank, is_first in (("0", True), ("1", False), ("10", False)):
        environment = VARIABLES | {"PET_NODE_RANK": rank}

        meet(environment)

        assert environment["PET_RDZV_BACKEND"] == "c10d"
        assert environment["PET_RDZV_ENDPOINT"] == "job-node-0-0.job:29500"
        assert environment["PET_RDZV_CONF"] == f"is_host={is_first},join_timeout=1800,read_timeout=1800"
        assert environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"


def test_machines_whose_agents_have_counted_other_failures_meet_in_one_store():
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "TORCHELASTIC_USE_AGENT_STORE": "False"}

    first = processes._store(shared | {"RANK": "0", "TORCHELASTIC_RESTART_COUNT": "1"})
    second = processes._store(shared | {"RANK": "1", "TORCHELASTIC_RESTART_COUNT": "0"})

    first.set("address", "here")
    assert second.get("address") == b"here"


def test_what_is_given_is_kept_and_one_machine_needs_nothing():
    own = VARIABLES | {"PET_NODE_RANK": "0", "PET_RDZV_CONF": "join_timeout=5"}
    meet(own)
    assert own["PET_RDZV_CONF"] == "join_timeout=5"

    alone = {}
    meet(alone)
    assert alone == {}
