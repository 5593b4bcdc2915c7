"""What is broken in `infra/` is seen: a sample here, all of it, Terraform's too, by `make infra-mutants`."""

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
import yaml

from infra.terraform import INFRA
from tests.infra import checks, hcl
from tests.infra.mutants import accepted
from tests.infra.mutants.judge import verdicts
from tests.infra.mutants.sow import Mutant, mutants

SAMPLE = 25


def sample(candidates: list[Mutant], count: int) -> list[Mutant]:
    return random.Random(0).sample(candidates, count)


def unseen(sown: list[Mutant], folder: Path) -> list[str]:
    seen = verdicts(sown, folder, lambda step: None)
    assert set(seen) == set(sown)
    return accepted.unexplained(mutant for mutant, check in seen.items() if not check)


def test_a_sample_of_what_is_broken_in_manifests_values_rules_and_dashboards_is_seen(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH: nothing was rendered")
    of_data = [mutant for mutant in mutants(INFRA) if mutant.cloud not in checks.CLOUDS]

    assert unseen(sample(of_data, SAMPLE), tmp_path) == []


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


def test_each_mutant_differs_from_the_file_in_one_piece_and_from_every_other_mutant(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("one: {two: [3, true, 4Gi], none: null}\n")
    (tmp_path / "b.tf").write_text('variable "a" {\n  type = string\n}\n')

    texts = {str(mutant): mutant.text() for mutant in mutants(tmp_path)}

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
    prose = Mutant("aws/outputs.tf", '2:3 output.bucket.description: "a" -> "ax"', str)
    value = Mutant("aws/outputs.tf", "3:3 output.bucket.value: without argument value = 1", str)

    assert accepted.unexplained([prose, value]) == [str(value)]
