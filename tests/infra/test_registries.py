"""What the registries' own rules delete, by the semantics that their pages state."""

import fnmatch
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.infra.plans import resources

Planned = Callable[[str, str], dict[str, Any]]
COMMIT, KEPT = "3f10b61c7c4f4d6c8a5f", "keep-" + "a" * 64
# what it is -> its tags, days since its push, whether it stays
IMAGES: dict[str, tuple[tuple[str, ...], int, bool]] = {
    "the newest commit": ((COMMIT,), 0, True),
    "a commit that nobody installed, of this quarter": ((COMMIT,), 90, True),
    "a commit that nobody installed, of last year": ((COMMIT,), 200, False),
    "a commit that runs": ((COMMIT, KEPT), 400, True),
    "what runs, without its commit": ((KEPT,), 400, True),
    "a version that was promoted": (("0.3.0", KEPT), 400, True),
    "a version that was copied by hand": (("0.3.0",), 200, False),
    "a signature of cosign 3, which refers to its image": ((), 400, True),
    "a signature of cosign 2, by its tag": (("sha256-" + "a" * 64 + ".sig",), 400, True),
    "an attestation of cosign 2, by its tag": (("sha256-" + "a" * 64 + ".att",), 400, True),
    "an upload that broke off": ((), 2, True),
    "a tag that only looks like one of ours": (("keepsake",), 200, False),
}


def expires(rules: list[dict[str, Any]], tags: tuple[str, ...], days: int) -> bool:
    """Whether ECR deletes an image, the only one it has: the first rule that its tags match decides."""
    for rule in sorted(rules, key=lambda rule: rule["rulePriority"]):
        selection = rule["selection"]
        if (selection["tagStatus"] == "untagged" and not tags) or selection["tagStatus"] == "any":
            matches = True
        else:
            patterns = selection.get("tagPatternList", ())
            matches = bool(tags) and all(any(fnmatch.fnmatch(tag, pattern) for tag in tags) for pattern in patterns)
        if matches:
            return selection["countType"] == "sinceImagePushed" and days > selection["countNumber"]
    return False


def is_cleaned(policies: list[dict[str, Any]], tags: tuple[str, ...], days: int) -> bool:
    """Whether Artifact Registry deletes an image: one policy deletes it and none keeps it."""

    def matches(condition: dict[str, Any]) -> bool:
        prefixes = condition.get("tag_prefixes") or ("",)
        states = {"ANY": True, "TAGGED": bool(tags), "UNTAGGED": not tags}
        old = days * 86400 > int((condition.get("older_than") or "0s").removesuffix("s"))
        tagged = not tags or any(tag.startswith(prefix) for tag in tags for prefix in prefixes)
        return states[condition["tag_state"]] and old and tagged

    acting = {policy["action"] for policy in policies for condition in policy["condition"] if matches(condition)}
    return acting == {"DELETE"}


@pytest.mark.xdist_group("terraform-aws")
def test_ecr_keeps_what_runs_and_its_signatures_and_deletes_the_rest_by_age(planned: Planned) -> None:
    for lifecycle in resources(planned("aws", "dev"), "aws_ecr_lifecycle_policy"):
        rules = json.loads(lifecycle.values["policy"])["rules"]
        assert {name: not expires(rules, tags, days) for name, (tags, days, _) in IMAGES.items()} == {
            name: stays for name, (_, _, stays) in IMAGES.items()
        }


@pytest.mark.xdist_group("terraform-gcp")
def test_artifact_registry_keeps_what_runs_and_its_signatures_and_deletes_the_rest_by_age(planned: Planned) -> None:
    (repository,) = resources(planned("gcp", "dev"), "google_artifact_registry_repository")

    policies = repository.values["cleanup_policies"]
    assert {name: not is_cleaned(policies, tags, days) for name, (tags, days, _) in IMAGES.items()} == {
        name: stays for name, (_, _, stays) in IMAGES.items()
    }
