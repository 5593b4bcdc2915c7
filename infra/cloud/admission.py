"""The policy by which Kyverno refuses pods whose images of ours are not signed."""

from typing import Any

from infra.cloud.answers import Cloud, EnvironmentAnswers

Json = dict[str, Any]
GITHUB = "https://token.actions.githubusercontent.com"  # says which workflow somebody is
NAMESPACES = ("airflow", "kubeflow", "nightshift")
PROVIDERS = {Cloud.AWS: "amazon", Cloud.GCP: "google"}  # of the login to the registry
IMAGES = "(images.containers + images.?initContainers.orValue([]) + images.?ephemeralContainers.orValue([]))"
VERIFIED = "verifyImageSignatures(image, [attestors.nightshift]) > 0"


def make_policy(answers: EnvironmentAnswers, registry: str, signer: str) -> Json:
    """Return the ImageValidatingPolicy of an environment; images of other registries, the charts', are not its matter.

    Args:
        answers: answers of the environment.
        registry: that the images are pulled from, with its folder.
        signer: key as cosign takes it, or the https:// of a workflow.
    """
    workflow = {"keyless": {"identities": [{"issuer": GITHUB, "subject": signer}]}}
    attestor = workflow if signer.startswith("https://") else {"key": {"kms": signer}}
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}
    ours = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(NAMESPACES)}
    # of another registry's image no signature is counted, and a step's pod has Argo's too
    signed = f"{IMAGES}.filter(image, image.startsWith('{registry}/')).all(image, {VERIFIED})"
    return {
        "apiVersion": "policies.kyverno.io/v1",
        "kind": "ImageValidatingPolicy",
        "metadata": {"name": "nightshift-signatures"},
        "spec": {
            "validationActions": ["Deny"],
            "failurePolicy": "Fail",
            # running pods are left alone
            "evaluation": {"background": {"enabled": False}},
            "matchConstraints": {"namespaceSelector": {"matchExpressions": [ours]}, "resourceRules": [pods]},
            "matchImageReferences": [{"glob": f"{registry}/*"}],
            "credentials": {"providers": [PROVIDERS[answers.cloud]]},
            "attestors": [{"name": "nightshift", "cosign": attestor}],
            "validations": [
                {
                    "expression": signed,
                    "message": f"an image of {registry} is not signed by {signer}; push it with make cloud-images",
                }
            ],
        },
    }
