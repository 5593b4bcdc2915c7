"""A step's parent in OpenLineage: the run that Airflow's own provider reports of its task, where it is installed."""

import logging
from typing import Any

from nightshift.runtime.observers import PARENT, ROOT

log = logging.getLogger(__name__)


def name_parent(context: Any) -> dict[str, str]:
    """Return the variables by which a step names its task's run and its DAG's; none without the provider."""
    try:
        from airflow.providers.openlineage.plugins.macros import lineage_parent_id, lineage_root_parent_id
    except ImportError:
        return {}
    try:
        return {PARENT: lineage_parent_id(context["ti"]), ROOT: lineage_root_parent_id(context["ti"])}
    except Exception as error:  # whatever it is, the step has its own work
        log.warning("OpenLineage's provider names no parent: %s", error)
        return {}
