"""Load test: what does a server of the champion withstand, and how should it be started?"""

from typing import Any

from kfp import dsl

from components.loadtest.component import loadtest
from components.reporting.component import reporting
from pipelines.graphs import always_run


def define() -> Any:
    """Return the pipeline."""

    @dsl.pipeline(name="loadtest", description=__doc__)
    def loadtest_pipeline(
        config: dict[str, Any],
        date: str,
        data: str,
        device: str,
        state: dict[str, Any],
        load: dict[str, Any] = {},  # noqa: B006 - traced once
    ) -> None:
        """Measure a server of the champion under load, where the step runs.

        Args:
            config: the use case, as in `pipelines/configs/`.
            date: day of the report.
            data: not read; of the report.
            device: not used; of the report.
            state: where things are kept, see `State`; with the target local the best settings are kept there too.
            load: what differs from the usual load: p99_ms, seconds, connections, rates.
        """
        measurement = loadtest(config=config, state=state, load=load)
        where = {"date": date, "data": data, "device": device, "state": state}
        report = reporting(config=config, **where, loadtest=measurement.output, run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER)
        always_run(measurement, report)

    return loadtest_pipeline
