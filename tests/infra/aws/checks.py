"""Checks that only AWS has; `tests/infra/checks.py` finds them by name."""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.infra import checks
from tests.infra.plans import Json, resources

# what the real ARNs look like, for those that an offline apply made up
ARNS = {
    "aws_cloudwatch_log_group": "arn:aws:logs:us-east-1:123456789012:log-group:flows",
    "aws_ecr_repository": "arn:aws:ecr:us-east-1:123456789012:repository/nightshift",
    "aws_eks_cluster": "arn:aws:eks:us-east-1:123456789012:cluster/nightshift",
    "aws_iam_role": "arn:aws:iam::123456789012:role/nightshift",
    "aws_kms_key": "arn:aws:kms:us-east-1:123456789012:key/00000000-0000-0000-0000-000000000000",
    "aws_s3_bucket": "arn:aws:s3:::nightshift",
    "aws_sqs_queue": "arn:aws:sqs:us-east-1:123456789012:nightshift",
}


def policies(state: Json) -> Iterator[tuple[str, str]]:
    """The policies of roles and of people, by their addresses, with ARNs as AWS writes them."""
    arns = {resource.values["arn"]: ARNS[resource.type] for resource in resources(state, *ARNS)}
    made_up = re.compile("|".join(map(re.escape, sorted(arns, key=len, reverse=True))))
    for policy in resources(state, "aws_iam_policy", "aws_iam_role_policy"):
        yield policy.address, made_up.sub(lambda match: arns[match[0]], policy.values["policy"])


def judge(state: Json) -> None:
    """Let parliament judge the policies of roles: unknown actions, resources and conditions that do not fit."""
    with tempfile.TemporaryDirectory() as folder:
        for address, text in policies(state):
            Path(folder, f"{address}.json").write_text(text)
        done = checks.start("parliament", "--json", "--directory", folder)
    assert "Traceback" not in done.stderr, done.stderr
    unexplained = [line for line in done.stdout.splitlines() if not _explained(json.loads(line))]
    assert not unexplained, "\n".join(unexplained)


def _explained(finding: Json) -> bool:
    """A launch needs a right on each kind of thing it touches, and Karpenter's statements share the kinds out.

    Parliament's list of conditions is older than that of a session's document.
    """
    if "Unknown condition ssm:SessionDocumentAccessCheck" in finding["detail"]:
        return True
    return finding["issue"] == "RESOURCE_MISMATCH" and finding["location"]["filepath"].endswith("policy.launch.json")
