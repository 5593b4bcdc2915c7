"""Each seeded defect is caught, by the check that is said to catch it and for the reason it is said to give."""

import re
from pathlib import Path

import pytest

from components.common.errors import UnavailableError
from tests.infra import checks
from tests.infra.mutation import Defect, defects, sow

SOWN = [
    pytest.param(cloud, defect, id=f"{cloud}: {defect.name}", marks=pytest.mark.xdist_group(f"terraform-{cloud}"))
    for cloud in checks.CLOUDS
    for defect in defects(cloud)
]


def words(text: str) -> str:
    """What was said, without the frame that Terraform draws and the line breaks it puts in."""
    return re.sub(r"[\s│╷╵]+", " ", text)


@pytest.mark.parametrize(("cloud", "defect"), SOWN)
def test_a_seeded_defect_is_caught(cloud: str, defect: Defect, tmp_path: Path, with_terraform: None) -> None:
    source = sow(defect, cloud, tmp_path)

    with pytest.raises((AssertionError, UnavailableError)) as caught:
        checks.run(defect.caught_by, cloud, source)

    assert defect.says in words(str(caught.value))
