"""The same tests on a cluster that is there already, by its kubeconfig: here the stand-in of another process."""

import os
import subprocess
import sys
from pathlib import Path

from nightshift_testkit.cluster.cluster import running
from nightshift_testkit.cluster.kinds import NAMESPACE
from nightshift_testkit.cluster.runtimes import ProcessRuntime
from nightshift_testkit.cluster.samples import needs_the_stand_in

FILE = "packages/testkit/tests/cluster/test_pods.py"


@needs_the_stand_in
def test_what_needs_no_more_than_an_api_runs_on_any_cluster_and_leaves_nothing_there(tmp_path: Path) -> None:
    with running(ProcessRuntime(missing=("none",)), tmp_path) as nodes:
        nodes.add_node("somebodys")
        config = nodes.config(tmp_path / "config")
        environment = os.environ | {"COLUMNS": "200", "NIGHTSHIFT_TEST_KUBECONFIG": str(config)}
        command = [sys.executable, "-m", "pytest", "-n", "0", "-v", "-p", "no:cacheprovider", FILE]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        left = {node["metadata"]["name"] for node in nodes.api.store.copies(NAMESPACE)}

    assert done.returncode == 0, done.stdout
    assert "test_a_step_ends_with_its_exit_code_and_message PASSED" in done.stdout
    skipped = "test_a_step_that_somebody_kills_fails_with_137 SKIPPED (needs the stand-in: no other cluster has `kill`)"
    assert skipped in done.stdout
    assert left == {"default", "kube-system"}
