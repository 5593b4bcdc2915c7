"""What the policies say of copies of `infra/` with mistakes in them, judged as a user's environment is."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from infra.cloud import answers as questions
from infra.policies import environment
from infra.policies.findings import judge
from infra.policies.model import Environment
from nightshift.runtime.errors import UnavailableError, UserError
from tests.infra.checks import CLOUDS
from tests.infra.injected.faults import Fault, Verdicts, group, inject


def judge_mistakes(mistakes: Sequence[Fault], scratch: Path) -> Verdicts:
    """Return the first new finding that names each mistake of an environment of size prod, or an empty text."""
    verdicts: Verdicts = {}
    for cloud in CLOUDS:
        sound = environment.read(cloud, "prod")
        before = {*judge(sound)}
        for at, faults in enumerate(group([mistake for mistake in mistakes if mistake.cloud == cloud])):
            new = sorted({*_judge(sound, faults, scratch / cloud / str(at))} - before)
            verdicts |= {fault: next(filter(lambda line: fault.is_named([line]), new), "") for fault in faults}
    return verdicts


def _judge(sound: Environment, faults: Sequence[Fault], scratch: Path) -> list[str]:
    """Return the findings on a copy with faults; where Terraform or kustomize refuses it, the refusal."""
    infra = inject(faults, scratch)
    try:
        if any(fault.is_planned for fault in faults):
            return list(map(str, judge(environment.read(sound.cloud, sound.name, infra))))
        return list(map(str, judge(manifests_of(sound, infra))))
    except (UnavailableError, UserError) as error:
        return [str(error)]


def manifests_of(sound: Environment, infra: Path) -> Environment:
    """Return an environment with the manifests of another folder, over the same plan."""
    answers = questions.read(sound.cloud, sound.name, sound.infra / "answers")
    objects, values = environment.manifests(answers, dict(sound.outputs), infra)
    return dataclasses.replace(sound, objects=objects, values=values, infra=infra)
