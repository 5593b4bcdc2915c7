"""Writes the JSON Schemas of artifacts and of `--json` documents: `python -m nightshift.contracts docs/schemas`."""

import json
import sys
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path

from nightshift import entry_points
from nightshift.contracts.access_log import AccessList, AccessRecord
from nightshift.contracts.approvals import ApprovalRecord
from nightshift.contracts.artifact import Artifact
from nightshift.contracts.audit_log import ActionList, LoggedAction
from nightshift.contracts.browsing import (
    DataDays,
    Overview,
    QuarantinedDay,
    RunSteps,
    SideBySide,
    Spending,
    VersionHistory,
    VersionRecord,
)
from nightshift.contracts.deployment import Deployment
from nightshift.contracts.drift import DriftReport
from nightshift.contracts.erasure import ErasureDecision, ErasureList
from nightshift.contracts.evaluation import ClassEvaluation, Evaluation, NumberEvaluation
from nightshift.contracts.experiment import ExperimentPlan, ExperimentStatus
from nightshift.contracts.feature_shard import FeatureShard
from nightshift.contracts.health import HealthReport
from nightshift.contracts.listings import (
    BackfillReport,
    CollectiveReport,
    CostEstimate,
    DriftHistory,
    EventList,
    ModelList,
    Removals,
    RunCosts,
    RunList,
)
from nightshift.contracts.loadtest import LoadTest, ServerSettings
from nightshift.contracts.online import Snapshot
from nightshift.contracts.optimization import Optimization
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.profile import Profile, TraceProfile
from nightshift.contracts.registry import Aliases, RegisteredVersion
from nightshift.contracts.release_record import Release
from nightshift.contracts.request import Launch, RetrainingRequest
from nightshift.contracts.section import Page, Section
from nightshift.contracts.tables import Manifest
from nightshift.contracts.verdict import Verdict

# file name -> the artifact, or what a command prints
ARTIFACTS: dict[str, type[Artifact]] = {
    "access_list": AccessList,
    "access_record": AccessRecord,
    "action_list": ActionList,
    "aliases": Aliases,
    "approvals": ApprovalRecord,
    "backfill_report": BackfillReport,
    "collective_report": CollectiveReport,
    "side_by_side": SideBySide,
    "cost_estimate": CostEstimate,
    "data_days": DataDays,
    "deployment": Deployment,
    "drift": DriftReport,
    "drift_history": DriftHistory,
    "event_list": EventList,
    "classes_evaluation": ClassEvaluation,
    "erasure_decision": ErasureDecision,
    "erasure_list": ErasureList,
    "evaluation": Evaluation,
    "experiment_plan": ExperimentPlan,
    "experiment_status": ExperimentStatus,
    "feature_shard": FeatureShard,
    "health_report": HealthReport,
    "launch": Launch,
    "loadtest": LoadTest,
    "logged_action": LoggedAction,
    "model": ModelPackage,
    "model_list": ModelList,
    "numbers_evaluation": NumberEvaluation,
    "online": Snapshot,
    "optimization": Optimization,
    "overview": Overview,
    "page": Page,
    "profile": Profile,
    "quarantined_day": QuarantinedDay,
    "registered_version": RegisteredVersion,
    "release": Release,
    "removals": Removals,
    "request": RetrainingRequest,
    "run_costs": RunCosts,
    "run_list": RunList,
    "run_steps": RunSteps,
    "section": Section,
    "settings": ServerSettings,
    "spending": Spending,
    "table": Manifest,
    "trace_profile": TraceProfile,
    "verdict": Verdict,
    "version": VersionRecord,
    "version_history": VersionHistory,
}


def schema(artifact: type[Artifact]) -> str:
    """Return an artifact's JSON Schema, as files hold it."""
    described = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(described | artifact.model_json_schema(mode="serialization"), indent=2) + "\n"


def list_artifacts() -> Mapping[str, type[Artifact]]:
    """Return file name -> artifact, with those of installed packages."""
    return ChainMap(ARTIFACTS, *(point.load() for point in entry_points.find(entry_points.SCHEMAS).values()))


def main(folder: str) -> None:
    """Write the schemas into a folder."""
    for name, artifact in list_artifacts().items():
        Path(folder, f"{name}.json").write_text(schema(artifact))


if __name__ == "__main__":
    main(sys.argv[1])
