"""The addresses of what holds data, as the last release has them; `python -m tests.infra.released` writes today's.

Terraform destroys what has another address than before, unless a `moved` block says where it went.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from infra.terraform import INFRA
from tests.infra.checks import CLOUDS
from tests.infra.golden import pages
from tests.infra.golden.facts import ABSENT

FILE = Path(__file__).with_suffix(".yaml")
# what is lost with a resource: objects, files, images, keys, volumes of the cluster, what a monitor has learned
_TYPES = (
    "aws_(ce_anomaly_monitor|ecr_repository|eks_cluster|fsx_lustre_file_system|kms_key|s3_bucket)"
    "|google_(artifact_registry_repository|container_cluster|filestore_instance|kms_crypto_key|kms_key_ring"
    "|lustre_instance|storage_bucket)|random_id"
)
_HEAD = re.compile(rf"((?:\S+\.)?(?:{_TYPES})\.[\w\[\]*-]+)(?: \((.*)\))?\n((?:.+\n)*)")
_CALL = re.compile(r'^module "(\w+)" \{\n +source += "\./modules/(\w+)"', re.MULTILINE)
_MOVED = re.compile(r"^moved \{\n +from += (\S+)\n +to += (\S+)\n\}", re.MULTILINE)


def read() -> dict[str, list[str]]:
    """Return the released addresses by cloud."""
    released: dict[str, list[str]] = yaml.safe_load(FILE.read_text())
    return released


def list_planned(cloud: str) -> set[str]:
    """Return the addresses in the golden plans of a cloud's environments, without `module.`."""
    plans = "\n".join(pages.golden(f"{cloud}-{environment}") for environment in pages.ENVIRONMENTS)
    return {
        _fill(name, key)
        for name, *_, keys, body in _HEAD.findall(plans)
        if ABSENT not in body.removeprefix("  is: ").splitlines()
        for key in keys.split(", ")
    }


def follow(address: str, cloud: str, infra: Path = INFRA) -> str:
    """Return where the moved blocks of a cloud's modules say that an address went."""
    for call, moves in _read_moves(infra / cloud).items():
        for old, new in moves.items():
            address = re.sub(rf"^({call}(?:\[[^]]*\])?\.){re.escape(old)}$", rf"\g<1>{new}", address)
    return address


def _read_moves(root: Path) -> dict[str, Mapping[str, str]]:
    calls = _CALL.findall((root / "main.tf").read_text())
    return {name: dict(_MOVED.findall((root / "modules" / module / "main.tf").read_text())) for name, module in calls}


def _fill(name: str, key: str) -> str:
    """Return an address with its keys in the place of the asterisks."""
    for part in key.split("/"):
        name = name.replace("[*]", f"[{part}]", 1)
    return name


if __name__ == "__main__":
    FILE.write_text(yaml.safe_dump({cloud: sorted(list_planned(cloud)) for cloud in CLOUDS}))
