"""Lustre's size follows from what loaders were measured to read, and is one that Terraform's modules admit."""

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from infra.cloud import answers as questions
from infra.cloud import lustre, rendering
from infra.cloud.answers import Cloud, EnvironmentAnswers, LustreNeed
from infra.terraform import INFRA
from nightshift.runtime.errors import UserError

PIXELS = 224 * 224 + 4 * 64  # bytes of a gray image of side 224 and 64 tokens
each_cloud = pytest.mark.parametrize("cloud", list(Cloud))
needs = st.builds(
    LustreNeed,
    rows_per_second=st.floats(1, 1e6),
    bytes_per_row=st.integers(1, 1_000_000),
    gib=st.integers(1, 9_000_000),
)


def read_googles_tiers() -> dict[int, dict[str, int]]:
    """The table of infra/gcp/modules/lustre."""
    text = (INFRA / "gcp" / "modules" / "lustre" / "main.tf").read_text()
    rows = re.findall(r'"(\d+)" += \{ (.*) \}', text)
    return {int(tier): {key: int(value) for key, value in re.findall(r"(\w+) = (\d+)", row)} for tier, row in rows}


def is_admitted(cloud: Cloud, capacity: int, tier: int) -> bool:
    """Whether a module's conditions hold."""
    if cloud is Cloud.AWS:
        return tier in (125, 250, 500, 1000) and (capacity == 1200 or capacity % 2400 == 0)
    row = read_googles_tiers()[tier]
    step = row["step"] if capacity <= row["threshold"] else row["large_step"]
    return row["step"] <= capacity <= row["max"] and capacity % step == 0


def answer(cloud: Cloud, size: str = "prod", **more: object) -> EnvironmentAnswers:
    """A shipped environment's answers with a measured need."""
    need = {"rows_per_second": 40_000, "bytes_per_row": PIXELS, "gib": 5000}
    shipped = questions.read(cloud, size).model_dump(mode="json")
    return questions.parse(yaml.safe_dump({**shipped, "lustre": need, **more}).encode(), f"{cloud}-{size}.yaml")


@each_cloud
@given(need=needs)
def test_the_size_holds_the_data_is_fast_enough_and_admitted(cloud: Cloud, need: LustreNeed) -> None:
    try:
        capacity, tier = lustre.size(cloud, need).values()
    except UserError:
        assert cloud is Cloud.GCP and lustre.compute_rate(need) / 1000 * 1024 > 10_008_000 - 72_000
        return

    assert is_admitted(cloud, capacity, tier)
    assert capacity >= need.gib and capacity / 1024 * tier >= lustre.compute_rate(need) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("cloud", "rows", "gib", "capacity", "tier"),
    [
        # 50 MB/s are less than the smallest file system has
        (Cloud.AWS, 1_000, 1_000, 1200, 125),
        (Cloud.AWS, 10_000, 1_000, 1200, 500),
        (Cloud.AWS, 200_000, 1_000, 12_000, 1000),
        # much data, slowly read
        (Cloud.AWS, 15_000, 80_000, 81_600, 125),
        (Cloud.GCP, 1_000, 1_000, 9_000, 1000),
        (Cloud.GCP, 15_000, 80_000, 144_000, 125),
        (Cloud.GCP, 1, 2_000_000, 2_016_000, 125),
    ],
)
def test_the_cheapest_tier_that_suffices_is_chosen(cloud: Cloud, rows: int, gib: int, capacity: int, tier: int) -> None:
    need = LustreNeed(rows_per_second=rows, bytes_per_row=PIXELS, gib=gib)

    assert lustre.size(cloud, need) == {"capacity_gib": capacity, "throughput": tier}


def test_googles_tiers_are_those_of_terraform() -> None:
    tiers = read_googles_tiers()

    assert tuple(sorted(tiers)) == lustre.TIERS
    for tier, row in tiers.items():
        assert (row["step"] * tier, row["threshold"] * tier) == (lustre.GOOGLE_STEP, lustre.GOOGLE_THRESHOLD)
        assert (row["large_step"], row["max"]) == lustre.GOOGLE_LARGE[tier]


def test_more_than_managed_lustre_has_is_refused_with_its_figures() -> None:
    need = LustreNeed(rows_per_second=1e9, bytes_per_row=PIXELS, gib=1)

    with pytest.raises(UserError, match="1 GiB at 50,432,000 MB/s is more than Managed Lustre has"):
        lustre.size(Cloud.GCP, need)


@each_cloud
def test_a_need_in_the_answers_becomes_terraforms_variable(cloud: Cloud) -> None:
    variables = rendering.variables(answer(cloud))

    assert variables["lustre"] == lustre.size(cloud, answer(cloud).lustre)
    assert variables.get("filestore") is None and "lustre" not in rendering.variables(questions.read(cloud, "prod"))


@each_cloud
def test_a_need_and_a_size_by_hand_exclude_each_other(cloud: Cloud) -> None:
    with pytest.raises(UserError, match=r"terraform\.lustre: unknown"):
        rendering.variables(answer(cloud, terraform={"lustre": {"capacity_gib": 18000, "throughput": 1000}}))


def test_the_smallest_size_has_no_lustre_to_size() -> None:
    with pytest.raises(UserError, match="lustre: size try keeps its state in a bucket"):
        answer(Cloud.AWS, "try")
