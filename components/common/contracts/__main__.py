"""Writes the JSON Schema of every artifact: `python -m components.common.contracts docs/schemas`."""

import json
import sys
from pathlib import Path

from components.common.contracts.artifact import Artifact
from components.common.contracts.deployment import Deployment
from components.common.contracts.drift import Drift
from components.common.contracts.evaluation import ClassEvaluation, Evaluation
from components.common.contracts.loadtest import LoadTest, Settings
from components.common.contracts.online import Snapshot
from components.common.contracts.optimization import Optimization
from components.common.contracts.package import ModelPackage
from components.common.contracts.profile import Profile, TraceProfile
from components.common.contracts.registry import Aliases, RegisteredVersion
from components.common.contracts.release import Release
from components.common.contracts.request import Launch, Request
from components.common.contracts.section import Page, Section
from components.common.contracts.tables import Manifest
from components.common.contracts.verdict import Verdict

# file name -> the artifact
ARTIFACTS: dict[str, type[Artifact]] = {
    "aliases": Aliases,
    "deployment": Deployment,
    "drift": Drift,
    "classes_evaluation": ClassEvaluation,
    "evaluation": Evaluation,
    "launch": Launch,
    "loadtest": LoadTest,
    "model": ModelPackage,
    "online": Snapshot,
    "optimization": Optimization,
    "page": Page,
    "profile": Profile,
    "registered_version": RegisteredVersion,
    "release": Release,
    "request": Request,
    "section": Section,
    "settings": Settings,
    "table": Manifest,
    "trace_profile": TraceProfile,
    "verdict": Verdict,
}


def schema(artifact: type[Artifact]) -> str:
    """Return an artifact's JSON Schema, as files hold it."""
    described = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(described | artifact.model_json_schema(mode="serialization"), indent=2) + "\n"


def main(folder: str) -> None:
    """Write the schemas into a folder."""
    for name, artifact in ARTIFACTS.items():
        Path(folder, f"{name}.json").write_text(schema(artifact))


if __name__ == "__main__":
    main(sys.argv[1])
