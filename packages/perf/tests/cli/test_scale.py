"""`nightshift perf scale` as a person calls it, with real processes."""

import re
from pathlib import Path

import pytest

from nightshift.runtime.errors import UserError
from tests.pipelines.samples import called, config_file


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "trained", "fault", "title"),
    [
        # its buffers, the statistics of batches, are no reason to wait for each other
        ("digits", "resnet on cpu, 64 rows of 8 x 8 pixels", "slow-process", r"A straggler \(.*: Process 1 takes "),
        ("fraud", "mlp on cpu, 2048 rows of 15 inputs", "starved-loader", r"The data loader \("),
    ],
)
def test_a_planted_fault_is_found(
    config: str, trained: str, fault: str, title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = trained.split()[3]
    assert called("perf", "scale", "--config", config, "--rows", rows, "--inject-fault", fault) == 0

    first, headings, one, two, *findings = capsys.readouterr().out.splitlines()
    assert first == f"{trained} a process and step"
    assert headings.split()[:3] == ["processes", "rows/s", "efficiency"]
    assert [line.split()[0] for line in (one, two)] == ["1", "2"]
    assert one.split()[2] == "100.0%"
    assert [line for line in findings if re.match(rf"\d\. {title}", line)]


@pytest.mark.parametrize("layout", [{"shard": 2}, {"zero": 2}])
def test_a_network_that_processes_split_is_not_measured(layout: dict[str, int], tmp_path: Path) -> None:
    file = config_file(tmp_path, task={"trainer": layout})

    with pytest.raises(UserError, match="splits a network, and this measures replicas"):
        called("perf", "scale", "--config", file)
