"""What the policies say of copies of `infra/` with mistakes in them."""

import dataclasses
import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from infra.cloud import answers as questions
from infra.cloud import rendering
from infra.cloud.answers import EnvironmentAnswers
from infra.policies import environment
from infra.policies.findings import judge
from infra.policies.model import Environment
from infra.terraform import INFRA
from tests.infra import hcl
from tests.infra.checks import CLOUDS
from tests.infra.golden import terraform

FOLDER = Path(__file__).parent
ENVIRONMENT = "prod"
# what the policies were written from, and what was held back while they were
SETS = ("mistakes", "held_back", "held_back_again", "held_back_third", "held_back_fourth")
SHOWN = f"{terraform.PLAN} && terraform apply -input=false -no-color plan >/dev/null && terraform show -json"


@dataclass(frozen=True)
class Mistake:
    """An edit of a file below `infra/`, and how a finding names what was changed.

    Attributes:
        kind: of mistake, as `mistakes.yaml` sorts them.
        file: below `infra/`.
        old: the text that is replaced, once.
        new: the text in its place.
        reason: pattern of a finding that names it.
    """

    kind: str
    file: str
    old: str
    new: str
    reason: str

    @property
    def cloud(self) -> str:
        """The cloud whose environment shows it."""
        return "gcp" if "gcp" in self.file else "aws"

    @property
    def is_planned(self) -> bool:
        """Whether Terraform has to plan it anew."""
        return self.file.split("/")[0] in (*CLOUDS, "answers")

    def sow(self, infra: Path) -> None:
        """Write it into a copy of `infra/`."""
        path = infra / self.file
        text = path.read_text()
        assert self.old in text, f"{self.file} has no {self.old!r}"
        path.write_text(text.replace(self.old, self.new, 1))

    def is_named(self, findings: Iterable[str]) -> bool:
        """Say whether a finding names what was changed."""
        return any(re.search(self.reason, finding) for finding in findings)

    def __str__(self) -> str:
        return f"{self.kind}: {self.file}: {self.old.strip()!r} -> {self.new.strip()!r}"


def read(name: str) -> list[Mistake]:
    """Return the mistakes of a file beside this one."""
    return [Mistake(**row) for row in yaml.safe_load((FOLDER / f"{name}.yaml").read_text())]


def grouped(mistakes: Sequence[Mistake]) -> list[list[Mistake]]:
    """Put mistakes together that touch different files of one cloud, so that neither hides the other."""
    groups: list[list[Mistake]] = []
    for mistake in mistakes:
        fitting = (group for group in groups if mistake.file not in {other.file for other in group})
        group = next(fitting, None)
        if group is None:
            groups.append(group := [])
        group.append(mistake)
    return groups


def copy_of(scratch: Path, mistakes: Iterable[Mistake]) -> Path:
    """Return a copy of `infra/` with mistakes in it."""
    infra = Path(shutil.copytree(INFRA, scratch / "infra", ignore=shutil.ignore_patterns("__pycache__")))
    for mistake in mistakes:
        mistake.sow(infra)
    return infra


def described(cloud: str, environments: Mapping[str, tuple[str, Path]]) -> dict[str, Environment]:
    """Return environments that are planned and applied beside each other, by the names of their copies.

    Args:
        cloud: aws or gcp.
        environments: the environment and the folder like `infra/`, a copy that may be changed, of each.
    """
    copies, answered = {}, {}
    for name, (own, infra) in environments.items():
        answers = answered[name] = questions.read(cloud, own, infra / "answers")
        copies[name] = terraform.Copy(infra / cloud, f"of-{own}")
        copies[name].values.write_text(_arguments(infra / cloud / f"{answers.size}.tfvars", answers))
    observed = terraform.observe(cloud, copies, SHOWN)
    return {
        name: environment.describe(answered[name], observed.plan, observed.state, infra, name)
        for name, (_, infra) in environments.items()
    }


def _arguments(size: Path, answers: EnvironmentAnswers) -> str:
    """Return the variables of a size with those of an environment laid over them."""
    own, text = rendering.variables(answers), size.read_text()
    for part in reversed(hcl.parts(text)):
        if part.kind == "argument" and part.path in [(name,) for name in own]:
            text = text[: part.start] + text[part.end :]
    return text + "".join(f"\n{name} = {json.dumps(value)}" for name, value in own.items())


def manifests_of(sound: Environment, infra: Path) -> Environment:
    """Return an environment with the manifests of another folder, over what was applied before."""
    answers = questions.read(sound.cloud, sound.name, sound.infra / "answers")
    objects, values = environment.manifests(answers, dict(sound.outputs), infra)
    return dataclasses.replace(sound, objects=objects, values=values, infra=infra)


def new_findings(sound: Environment, broken: Environment) -> set[str]:
    """Return what is found in one environment and not in the other."""
    return {*judge(broken)} - {*judge(sound)}
