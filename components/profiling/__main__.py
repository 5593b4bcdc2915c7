"""Flags in, files out: see `components/profiling/__init__.py`."""

import os

from components.profiling import component, section
from nightshift import storage, tasks
from nightshift.contracts import profile
from nightshift.contracts.section import write_section
from nightshift.models.tensors import row_count
from nightshift.runtime import step
from nightshift.runtime.context import StepContext
from nightshift.tasks.base.training import TrainingSetup


def body(context: StepContext) -> dict[str, float]:
    """Measure and save."""
    folder, device = context.args.profile, context.device
    setup = TrainingSetup(context.config, context.plan, context.features, device)
    # its log holds nothing for the reader of a step's log; read when PyTorch is imported
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    from components.profiling import core
    from nightshift.models.neural import devices

    devices.torch_device(device)
    watch, model = core.PhaseTimer(device == "cuda"), context.model
    subject = tasks.find(context.config.task.kind).profiling.selected_fit(setup, model, watch.phase)
    count, days = row_count(subject.inputs), context.plan.test.train
    step.log.info("fitting %s again, on %d rows of %s, on %s", model.selected, count, days, device)
    measurements, trace = core.measure(subject, watch, model.identify_graph(model.selected))
    step.log.info("%.0f rows per second. %s", measurements.rows_per_second, measurements.diagnosis)
    storage.write_bytes(storage.join(folder, profile.TRACE), trace)
    write_section(folder, section.build(measurements))
    measurements.write(storage.join(folder, profile.FILE))
    one, many = measurements.scoring
    return {
        "rows_per_second": measurements.rows_per_second,
        "data_wait_share": measurements.data_wait_share,
        "scored_rows_per_second": many.rows_per_second,
        "single_rows_per_second": one.rows_per_second,
    }


if __name__ == "__main__":
    step.run(component.profiling.parser(), body)
