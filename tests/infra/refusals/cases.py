"""The cases of `<cloud>.yaml`, and which conditions of a cloud's configuration refuse them."""

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra import terraform
from tests.infra.golden.terraform import take_providers

BLOCK = re.compile(r'^(variable|resource) ("[^{]+) \{\n(.*?)^\}', re.MULTILINE | re.DOTALL)
CONDITION = re.compile(r"^ +(validation|precondition) \{", re.MULTILINE)
RULE = re.compile(r"checked by the validation rule at configuration/(.*?):(\d+)")
SUMMARIES = {"Invalid value for variable", "Resource precondition failed"}
COPY = "configuration"
Location = tuple[str, int]  # a file of the configuration, and the line of a condition
Address = tuple[str, str]  # a module ("root" is the root), and a variable or resource of it


@dataclass(frozen=True)
class Case:
    """Arguments of a module, and the addresses in it that refuse them."""

    name: str
    module: str
    arguments: Mapping[str, Any]
    refused_by: tuple[Address, ...]

    def call(self) -> dict[str, Any]:
        """The case as a module of Terraform's."""
        return {"source": f"./{COPY}" + ("" if self.module == "root" else f"/modules/{self.module}"), **self.arguments}


def read(cloud: str) -> list[Case]:
    """Return a cloud's cases."""
    content = yaml.safe_load(Path(__file__).with_name(f"{cloud}.yaml").read_text())
    return [
        Case(
            f"{module}-{name}",
            module,
            {**described["usual"], **case["arguments"]},
            tuple((module, re.sub(r"\[.*\]", "", address)) for address in case["refused_by"]),
        )
        for module, described in content.items()
        for name, case in described["cases"].items()
    ]


def conditions(root: Path) -> dict[Location, Address]:
    """Return whose condition stands where, of all variables and resources."""
    written = {}
    for path in root.rglob("*.tf"):
        text, file = path.read_text(), str(path.relative_to(root))
        module = path.parent.name if path.parent != root else "root"
        for block in BLOCK.finditer(text):
            address = ".".join([*(["var"] if block[1] == "variable" else []), *re.findall(r'"(.*?)"', block[2])])
            for condition in CONDITION.finditer(block[3]):
                line = text.count("\n", 0, block.start(3) + condition.start()) + 1
                # of a precondition Terraform names the line with the condition itself
                written[file, line + (condition[1] == "precondition")] = module, address
    return written


def refused(cloud: str) -> Counter[Location]:
    """Return how often each condition refuses one of the cloud's cases.

    `validate` sees what depends on one variable, and a plan of the other cases all else.
    """
    cases = read(cloud)
    seen = list(_errors(cloud, cases, "terraform validate -json || true"))
    named = {re.sub(r'^module\."?|"$', "", error["snippet"]["context"]) for error in seen}
    left = [case for case in cases if case.name not in named]
    lines = _errors(cloud, left, "terraform plan -input=false -json || true")
    return Counter(_locate(error) for error in [*seen, *lines])


def _errors(cloud: str, cases: list[Case], command: str) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, cloud)
        _lay_out(terraform.INFRA / cloud, cases, root)
        printed = terraform.run(cloud, command, Path(scratch))
    for document in _documents(printed):
        for diagnostic in document.get("diagnostics", [document.get("diagnostic")]):
            if diagnostic and diagnostic["severity"] == "error":
                assert diagnostic["summary"] in SUMMARIES, diagnostic
                yield diagnostic


def _lay_out(configuration: Path, cases: list[Case], root: Path) -> None:
    folder = Path(shutil.copytree(configuration, root / COPY, ignore=shutil.ignore_patterns("tests")))
    providers: dict[str, dict[str, str]] = {name: {} for name in take_providers(folder)}
    shutil.copy(folder / "versions.tf", root)
    modules = {case.name: case.call() for case in cases}
    (root / "cases.tf.json").write_text(json.dumps({"provider": providers, "module": modules}))


def _documents(printed: str) -> Iterator[dict[str, Any]]:
    """Read what `validate` prints, one document, or what a plan does, one in each line."""
    decoder, text = json.JSONDecoder(), printed.strip()
    while text:
        document, end = decoder.raw_decode(text)
        yield document
        text = text[end:].strip()


def _locate(error: dict[str, Any]) -> Location:
    if rule := RULE.search(error["detail"]):
        return rule[1], int(rule[2])
    location = error["range"]
    return location["filename"].removeprefix(f"{COPY}/"), location["start"]["line"]
