import functools
import shutil
from collections.abc import Callable

import pytest

from infra.cloud import plans
from tests.infra import checks
from tests.infra.plans import Json


@pytest.fixture(scope="session")
def with_terraform() -> None:
    """Terraform is there."""
    if shutil.which("terraform") is None:
        checks.missing("terraform is not on PATH: nothing was planned")


@pytest.fixture(scope="session")
def planned(with_terraform: None) -> Callable[[str, str], Json]:
    """`planned(cloud, environment)` is that plan, made once."""
    return functools.cache(plans.plan)


@pytest.fixture(scope="session")
def applied(with_terraform: None) -> Callable[[str], Json]:
    """`applied(cloud)` is the state after dev was applied, made once."""
    return functools.cache(checks.applied)
