"""Conventions of managed platforms for a serving container: the model's folder, the port, the paths of requests."""

from collections.abc import Mapping
from dataclasses import dataclass, field

SAGEMAKER_MODEL = "/opt/ml/model"
SAGEMAKER_PORT = 8080


@dataclass(frozen=True)
class Platform:
    """A platform that starts the container, authenticates clients and forwards their requests.

    Attributes:
        name: name in messages.
        port: port of its requests.
        model: folder of the package that it provides; None: a flag names the package.
        aliases: path of the platform -> route of the server.
    """

    name: str
    port: int
    model: str | None = None
    aliases: dict[str, str] = field(default_factory=dict)


def detect(environment: Mapping[str, str], is_sagemaker: bool) -> Platform | None:
    """Return the platform that has started this process; None: no platform has.

    SageMaker runs the container with the argument `serve`, Vertex AI sets `AIP_*`, Cloud Run `K_SERVICE` and `PORT`.

    Args:
        environment: this process's environment variables.
        is_sagemaker: whether the process has the argument `serve`.
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
