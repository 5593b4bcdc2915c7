"""What is broken in `infra/` is seen: a sample here, all of it, Terraform's too, by `make infra-faults`."""

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
import yaml

from infra.terraform import INFRA
from tests.infra import hcl
from tests.infra.injected import accepted
from tests.infra.injected.changes import find_changes
from tests.infra.injected.checks import judge_changes
from tests.infra.injected.faults import Fault, read_mistakes

SAMPLE = 25


def test_a_sample_of_what_is_broken_in_manifests_values_rules_and_dashboards_is_seen(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH: nothing was rendered")
    of_data = [change for change in find_changes(INFRA) if not change.is_terraform]
    sample = random.Random(0).sample(of_data, SAMPLE)
    verdicts = judge_changes(sample, tmp_path, lambda step: None)

    assert verdicts.keys() == {*sample}
    assert accepted.unexplained(change for change, check in verdicts.items() if not check) == []


def test_every_piece_of_a_file_of_terraform_is_found() -> None:
    text = """# a comment with { and = in it
resource "a" "b" {
  name  = "${var.x["k"]}-b" # why
  ports = [80, 443]
  tags  = merge(local.tags, { Name = "x", "key" = true })

  rule {
    open = var.n >= 2 && !var.m ? "yes" : "no"
  }
}
"""
    parts = hcl.parts(text)

    assert Counter(part.kind for part in parts) == {
        "argument": 6,
        "block": 2,
        "element": 2,
        "string": 4,
        "number": 3,
        "bool": 1,
        "operator": 2,
    }
    assert [part.address for part in parts if part.kind == "block"] == ["resource.a.b", "resource.a.b.rule"]
    assert text[parts[-1].start : parts[-1].end] == '"no"'


def test_each_change_differs_from_the_file_in_one_piece_and_from_every_other_change(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("one: {two: [3, true, 4Gi], none: null}\n")
    (tmp_path / "b.tf").write_text('variable "a" {\n  type = string\n}\n')

    texts = {str(change): change.text() for change in find_changes(tmp_path)}

    assert len(set(texts.values())) == len(texts)
    assert {name: yaml.safe_load(text) for name, text in texts.items() if "a.yaml" in name} == {
        "a.yaml: without 0.one": {},
        "a.yaml: without 0.one.two": {"one": {"none": None}},
        "a.yaml: without 0.one.two.0": {"one": {"two": [True, "4Gi"], "none": None}},
        "a.yaml: 0.one.two.0: 3 -> 4": {"one": {"two": [4, True, "4Gi"], "none": None}},
        "a.yaml: without 0.one.two.1": {"one": {"two": [3, "4Gi"], "none": None}},
        "a.yaml: 0.one.two.1: True -> False": {"one": {"two": [3, False, "4Gi"], "none": None}},
        "a.yaml: without 0.one.two.2": {"one": {"two": [3, True], "none": None}},
        "a.yaml: 0.one.two.2: 4Gi -> 5Gi": {"one": {"two": [3, True, "5Gi"], "none": None}},
        "a.yaml: without 0.one.none": {"one": {"two": [3, True, "4Gi"]}},
        "a.yaml: 0.one.none: None -> x": {"one": {"two": [3, True, "4Gi"], "none": "x"}},
    }


def test_a_survivor_is_accepted_by_a_pattern_with_its_reason_and_not_else() -> None:
    prose = Fault("aws/outputs.tf", '2:3 output.bucket.description: "a" -> "ax"', str)
    value = Fault("aws/outputs.tf", "3:3 output.bucket.value: without argument value = 1", str)

    assert accepted.unexplained([prose, value]) == [str(value)]


def test_each_mistake_changes_a_file_that_is_there_and_is_written_once() -> None:
    mistakes = [mistake for mistakes in read_mistakes().values() for mistake in mistakes]

    assert len({*mistakes}) == len(mistakes)
    assert [str(mistake) for mistake in mistakes if mistake.text() == (INFRA / mistake.file).read_text()] == []
