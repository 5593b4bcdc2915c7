"""Images that were pushed stand for those of the example registry."""

import pytest

from nightshift.runtime.errors import UserError
from pipelines import arguments
from pipelines.environments import Role, site
from pipelines.images import PUSHED_IMAGES

BASE, RAPIDS = (
    f"444444444444.dkr.ecr.eu-west-1.amazonaws.com/acme/{name}@sha256:{'a' * 64}" for name in ("base", "rapids")
)


@pytest.mark.parametrize("environment", ["aws", "gcp"])
def test_every_step_of_a_shipped_pipeline_and_of_its_environment_has_the_image_that_was_pushed(
    environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PUSHED_IMAGES, f"{BASE} {RAPIDS}")
    for pipeline in arguments.list_shipped():
        compiled = arguments.load_compiled(pipeline, environment)
        assert {task.image for task in compiled.tasks} <= {BASE, RAPIDS}
        assert b"registry.example.com" not in compiled.yaml

    images = {role: placement.image for role, placement in site(environment).placements.items()}
    assert images[Role.LIGHT] == BASE and images[Role.GPU] == RAPIDS


def test_where_nothing_was_pushed_the_example_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PUSHED_IMAGES, raising=False)

    assert site("aws").placements[Role.LIGHT].image.startswith("registry.example.com/nightshift/base:")


@pytest.mark.parametrize(
    "reference",
    [
        f"base@sha256:{'a' * 64}",
        "registry.test/base:0.3.0",
        "registry.test/base@sha256:aa",
        f"registry.test/base:0.3.0@sha256:{'a' * 64}",
        f"{BASE},{RAPIDS}",
    ],
)
def test_what_is_no_image_of_a_registry_with_its_digest_alone_is_refused(
    reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PUSHED_IMAGES, reference)

    with pytest.raises(UserError, match=f"NIGHTSHIFT_IMAGES has '{reference}', which is no <registry>"):
        site("aws")


def test_two_images_of_a_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PUSHED_IMAGES, f"{BASE} {BASE} {BASE.replace('acme', 'other')}")

    with pytest.raises(UserError, match="NIGHTSHIFT_IMAGES has two images 'base'"):
        site("aws")


@pytest.mark.parametrize("name", ["bsae", "Base", "registry", "endpoint"])
def test_an_image_that_no_stage_of_the_dockerfile_makes_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PUSHED_IMAGES, f"{RAPIDS} {BASE.replace('/base', f'/{name}')}")

    with pytest.raises(UserError, match=rf"NIGHTSHIFT_IMAGES has an image '{name}'; allowed: base, .*, rapids"):
        site("aws")


def test_a_misspelled_image_is_refused_with_the_closest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PUSHED_IMAGES, BASE.replace("/base", "/bsae"))

    with pytest.raises(UserError, match="did you mean 'base'"):
        site("aws")
