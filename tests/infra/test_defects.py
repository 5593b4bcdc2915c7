"""Each seeded defect is caught, by the check that is said to catch it and for the reason it is said to give."""

import functools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from components.common.errors import UnavailableError
from infra import terraform
from tests.infra import checks
from tests.infra.mutation import Defect, defects, sow

SOWN = [(cloud, defect) for cloud in checks.CLOUDS for defect in defects(cloud)]


def beside(cloud: str, defect: Defect) -> tuple[Defect, ...]:
    """The defects that one run shows beside this one: a plan for each would take minutes."""
    policies = checks.policies(cloud)
    return tuple(
        other
        for other in defects(cloud)
        if not other.alone
        and (other.caught_by == defect.caught_by or {other.caught_by, defect.caught_by} <= policies.keys())
    )


def words(text: str) -> str:
    """What was said, without the frame that Terraform draws and the line breaks it puts in."""
    return re.sub(r"[\s│╷╵]+", " ", text)


def refusal(check: str, cloud: str, source: Path) -> str:
    with pytest.raises((AssertionError, UnavailableError)) as caught:
        checks.run(check, cloud, source)
    return str(caught.value)


@pytest.fixture(scope="session")
def said(with_terraform: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Defect], str]:
    """`said(cloud, defect)` is what the check answers that has to catch the defect."""
    planned = functools.cache(terraform.plan)
    refused = functools.cache(refusal)

    @functools.cache
    def sown(cloud: str, group: tuple[Defect, ...]) -> Path:
        return sow(group, cloud, tmp_path_factory.mktemp(cloud))

    def answer(cloud: str, defect: Defect) -> str:
        source = sown(cloud, (defect,) if defect.alone else beside(cloud, defect))
        policy = checks.policies(cloud).get(defect.caught_by)
        return "\n".join(policy(planned(cloud, "dev", source))) if policy else refused(defect.caught_by, cloud, source)

    return answer


@pytest.mark.parametrize(
    ("cloud", "defect"),
    [
        pytest.param(cloud, defect, id=f"{cloud}: {defect.name}", marks=pytest.mark.xdist_group(f"terraform-{cloud}"))
        for cloud, defect in SOWN
    ],
)
def test_a_seeded_defect_is_caught(cloud: str, defect: Defect, said: Callable[[str, Defect], str]) -> None:
    assert defect.says in words(said(cloud, defect))


@pytest.mark.parametrize("cloud", checks.CLOUDS)
def test_no_defect_is_taken_for_another_that_the_same_run_shows(cloud: str) -> None:
    shared = {(defect.caught_by, defect.says) for defect in defects(cloud)}

    assert len(shared) == len(defects(cloud))
