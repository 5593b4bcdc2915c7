"""What the policies say of copies of `infra/` with mistakes in them."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.cloud import answers as questions
from infra.cloud import rendering
from infra.cloud.answers import EnvironmentAnswers
from infra.policies import environment
from infra.policies.findings import judge
from infra.policies.model import Environment
from tests.infra import hcl
from tests.infra.checks import CLOUDS
from tests.infra.golden import terraform
from tests.infra.injected.faults import Fault, Verdicts, group, inject

SHOWN = f"{terraform.PLAN} && terraform apply -input=false -no-color plan >/dev/null && terraform show -json"


def judge_mistakes(mistakes: Sequence[Fault], scratch: Path) -> Verdicts:
    """Return the first new finding that names each mistake of an environment of size prod, or an empty text."""
    verdicts: Verdicts = {}
    for cloud in CLOUDS:
        groups = group([mistake for mistake in mistakes if mistake.cloud == cloud])
        injected = {"sound": [], **{f"m{at}": faults for at, faults in enumerate(groups)}}
        copies = {name: ("prod", inject(faults, scratch / cloud / name)) for name, faults in injected.items()}
        environments = describe(cloud, copies)
        for name, faults in injected.items():
            new = sorted({*judge(environments[name])} - {*judge(environments["sound"])})
            verdicts |= {fault: next(filter(lambda line: fault.is_named([line]), new), "") for fault in faults}
    return verdicts


def describe(cloud: str, environments: Mapping[str, tuple[str, Path]]) -> dict[str, Environment]:
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
