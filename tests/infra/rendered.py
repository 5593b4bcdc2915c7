"""The shipped environments as `infra/cloud` renders them, of outputs that Terraform could have."""

import functools
import json
import tempfile
from pathlib import Path

from infra.cloud import answers as questions
from infra.cloud import core, rendering
from infra.cloud.answers import Cloud, EnvironmentAnswers, Size
from tests.infra.charts import CHARTS
from tests.infra.plans import Json

NAMES = ("aws-dev", "aws-prod", "aws-try", "gcp-dev", "gcp-prod", "gcp-try")
DIGESTS = {
    name: f"sha256:{digit * 64}" for digit, name in zip("1234", ("airflow", "base", "rapids", "serving"), strict=True)
}
FILE_SYSTEM = "fs-0123456789abcdef0"
GIBIBYTES = {"dev": 1200, "prod": 4800}


def read(name: str) -> EnvironmentAnswers:
    """The answers of a shipped environment."""
    return questions.read(*name.split("-"))


def outputs(answers: EnvironmentAnswers) -> Json:
    """What `terraform output -json` prints of an environment."""
    values = _aws(answers) if answers.cloud is Cloud.AWS else _gcp(answers)
    return {name: {"value": value} for name, value in values.items() if value is not None}


def _aws(answers: EnvironmentAnswers) -> Json:
    registry = f"{answers.account.id}.dkr.ecr.{answers.region}.amazonaws.com/{answers.cluster}"
    return {
        "bucket": f"{answers.cluster}-{answers.account.id}",
        "efa_interfaces": 0,
        "karpenter": {"queue": f"{answers.cluster}-interruptions", "node_role": f"{answers.cluster}-nodes"},
        "lustre": None
        if answers.size is Size.TRY
        else {
            "id": FILE_SYSTEM,
            "dns_name": f"{FILE_SYSTEM}.fsx.{answers.region}.amazonaws.com",
            "mount": "fsx",
            "capacity": f"{GIBIBYTES[answers.size]}Gi",
        },
        "repositories": {name: f"{registry}/{name}" for name in DIGESTS},
        "signing_key": f"awskms:///arn:aws:kms:{answers.region}:{answers.account.id}:key/images",
    }


def _gcp(answers: EnvironmentAnswers) -> Json:
    zone, volume = answers.zones[0], None
    if answers.size is Size.DEV:
        handle = f"modeInstance/{zone}/{answers.cluster}/nightshift"
        volume = {"handle": handle, "ip": "10.0.0.2", "share": "nightshift", "capacity_gib": 1024}
    elif answers.size is Size.PROD:
        handle = f"{answers.account.id}/{zone}/{answers.cluster}"
        volume = {"handle": handle, "ip": "10.0.0.2", "filesystem": "lustre", "capacity_gib": 18000}
    key_ring = f"projects/{answers.account.id}/locations/{answers.region}/keyRings/{answers.cluster}"
    return {
        "signing_key": f"gcpkms://{key_ring}/cryptoKeys/images/versions/1",
        "buckets": {use: f"{answers.account.id}-{answers.cluster}-{use}" for use in ("lake", "pipelines", "models")},
        "gpu_pools": {"l4": "on_demand", "l4-spot": "spot"},
        "repository": f"{answers.region}-docker.pkg.dev/{answers.account.id}/{answers.cluster}",
        "volume": volume,
    }


def infrastructure(answers: EnvironmentAnswers) -> rendering.Infrastructure:
    """What an environment is, as far as its cluster has to know it."""
    return rendering.read_outputs(answers, json.dumps(outputs(answers)))


def lay_out(answers: EnvironmentAnswers, folder: Path) -> dict[str, str]:
    """Render an environment's overlays into a folder; return the variables of the shell that installs it."""
    (folder / rendering.OUTPUTS).write_text(json.dumps(outputs(answers)))
    (folder / rendering.IMAGES).write_text("".join(f"{name} 0.3.0 {digest}\n" for name, digest in DIGESTS.items()))
    for _ in rendering.write(answers, folder):
        pass
    return core.settings(answers, infrastructure(answers), DIGESTS) | {"OVERLAYS": str(folder)}


def commands(answers: EnvironmentAnswers) -> dict[str, list[str]]:
    """The commands of an environment by action, once Terraform has made what it makes."""
    environment = infrastructure(answers)
    return {
        "state": core.state(answers),
        "up": core.up(answers),
        "images": core.images(answers, environment),
        "install": core.install(CHARTS, answers, environment, DIGESTS),
        "schedule": core.schedule(answers, environment, DIGESTS),
        "down": core.down(CHARTS, answers, core.Data.DELETE),
    }


@functools.cache
def overlays(name: str) -> Path:
    """Return a folder with a shipped environment's overlays."""
    folder = Path(tempfile.mkdtemp())
    lay_out(read(name), folder)
    return folder
