"""The forms by which a person starts a DAG."""

from airflow.sdk import Param

from nightshift.contracts.state import TARGETS
from pipelines import configs, ir
from pipelines.engines.airflow.operators.context import AirflowSettings


def start(pipeline: ir.Pipeline, settings: AirflowSettings) -> dict[str, Param]:
    """Return the fields of a run's form: those parameters of the pipeline that a person chooses."""
    day = "the logical date; empty: the day of the asset's event, or the last complete UTC day"
    target = Param(settings.target, type="string", enum=TARGETS, description="where models are deployed")
    known = {"date": Param(None, type=["null", "string"], format="date", description=day), "target": target}
    known |= {
        "approve": Param("", type="string", pattern="^[0-9]*$", description="version that you approve; empty: none"),
        # a step takes what begins with @ for a file of flags, and with - for a flag
        "reason": Param(
            "", type="string", pattern=r"^(\w.*)?$", maxLength=500, description="why you approve, for the audit log"
        ),
    }
    declared = {*pipeline.parameters, *(["target"] if "state" in pipeline.parameters else [])}
    return {name: param for name, param in (known | _common_fields(settings)).items() if name in declared}


def span(settings: AirflowSettings) -> dict[str, Param]:
    """Return the fields of a backfill's form."""
    days = {
        name: Param(type="string", format="date", description=f"the {name} logical date") for name in ("first", "last")
    }
    return days | _common_fields(settings)


def _common_fields(settings: AirflowSettings) -> dict[str, Param]:
    return {
        "data": Param(settings.data, type="string", minLength=1, description="simulator, a folder, s3:// or gs://"),
        "config": Param(
            settings.config, type="string", examples=configs.names(), description="a use case, or its file"
        ),
        "device": Param(settings.device, type="string", enum=["cpu", "cuda"], description="where to compute"),
    }
