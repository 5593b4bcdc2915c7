"""What managed platforms say to a container that serves: where the model lies, which port and paths they ask."""

from collections.abc import Mapping
from dataclasses import dataclass, field

SAGEMAKER_MODEL = "/opt/ml/model"
SAGEMAKER_PORT = 8080


@dataclass(frozen=True)
class Platform:
    """Who starts the container, asks it, and has checked who asks.

    Attributes:
        name: for messages.
        port: where it asks.
        model: folder of the package it has brought; None where that is given by a flag.
        aliases: its paths -> our routes.
    """

    name: str
    port: int
    model: str | None = None
    aliases: dict[str, str] = field(default_factory=dict)


def detect(environment: Mapping[str, str], is_sagemaker: bool) -> Platform | None:
    """Return the platform that has started this process, None when it is none of them.

    SageMaker runs the container with the argument `serve`, Vertex AI sets `AIP_*`, Cloud Run `K_SERVICE` and `PORT`.

    Args:
        environment: this process's.
        is_sagemaker: whether it was given the argument `serve`.
    """
    if is_sagemaker:
        return Platform("SageMaker", SAGEMAKER_PORT, SAGEMAKER_MODEL)
    if port := environment.get("AIP_HTTP_PORT"):
        routes = {"AIP_HEALTH_ROUTE": "/healthz", "AIP_PREDICT_ROUTE": "/score"}
        aliases = {environment[name]: route for name, route in routes.items() if name in environment}
        return Platform("Vertex AI", int(port), environment.get("AIP_STORAGE_URI"), aliases)
    if "K_SERVICE" in environment:
        return Platform("Cloud Run", int(environment.get("PORT", "8080")))
    return None
