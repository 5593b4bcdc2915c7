"""The events of a step's try: which run of which job it is, what it belongs to, and how it has ended."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import NAMESPACE_URL, UUID, uuid5

from openlineage.client.event_v2 import Job, Run, RunEvent, RunState, set_producer
from openlineage.client.facet_v2 import error_message_run, job_type_job, parent_run, processing_engine_run
from openlineage.client.uuid import generate_static_uuid

from nightshift.openlineage.datasets import StepDatasets
from nightshift.runtime.errors import PreemptedError
from nightshift.runtime.identity import RunIdentity, StepIdentity
from nightshift.runtime.lineage import code_version
from nightshift.runtime.masking import mask_secrets
from nightshift.runtime.observers import PARENT, ROOT
from nightshift.runtime.printable import printable_lines

NAMESPACE, DEFAULT_NAMESPACE = "OPENLINEAGE_NAMESPACE", "nightshift"
STARTED = "NIGHTSHIFT_LINEAGE_STARTED"  # when the try began: a step that becomes torchrun's processes is still one try


@dataclass(frozen=True)
class ParentRun:
    """The run that a step belongs to."""

    namespace: str
    job_name: str
    run_id: str


@dataclass(frozen=True)
class RunEvents:
    """Makes the events of a run, which its steps name as their parent.

    Attributes:
        run: the run.
    """

    run: RunIdentity

    def start(self) -> RunEvent:
        """Return the event of the start."""
        return self._make(RunState.START)

    def complete(self) -> RunEvent:
        """Return the event of a good end."""
        return self._make(RunState.COMPLETE)

    def fail(self, error: BaseException) -> RunEvent:
        """Return the event of any other end."""
        return add_error(self._make(find_end(error)), error)

    def _make(self, state: RunState) -> RunEvent:
        named = identify_run(self.run)
        facets = {"parent": make_parent(parent)} if (parent := read_parent(PARENT)) else {}
        return make_event(state, Run(named.run_id, {**facets}), Job(named.namespace, named.job_name), "PIPELINE")


@dataclass(frozen=True)
class StepEvents:
    """Makes the events of one try of a step.

    Attributes:
        step: the step.
        datasets: what it reads and writes.
    """

    step: StepIdentity
    datasets: StepDatasets

    def start(self) -> RunEvent:
        """Return the event of the start, with the inputs."""
        return self._make(RunState.START)

    def complete(self) -> RunEvent:
        """Return the event of the end, with what the step has written and found."""
        event = self._make(RunState.COMPLETE)
        event.inputs, event.outputs = self.datasets.judge(event.inputs or []), self.datasets.list_outputs()
        return event

    def fail(self, error: BaseException) -> RunEvent:
        """Return the event of any other end."""
        return add_error(self._make(find_end(error)), error)

    @property
    def run_id(self) -> str:
        """The id of the try: of the same step, run and start it is the same."""
        return str(generate_static_uuid(find_start(), f"{self.step.run.root}/{self.step.task}".encode()))

    def _make(self, state: RunState) -> RunEvent:
        parent = read_parent(PARENT) or identify_run(self.step.run)
        run = Run(self.run_id, {"parent": make_parent(parent)})
        event = make_event(state, run, Job(find_namespace(), self.step.job_name), "STEP")
        event.inputs = self.datasets.list_inputs()
        return event


def make_event(state: RunState, run: Run, lineage_job: Job, job_type: str) -> RunEvent:
    """Return an event without datasets, now."""
    version = code_version()
    set_producer(f"urn:nightshift:{version}")
    engine = processing_engine_run.ProcessingEngineRunFacet(version=version, name="nightshift")
    run.facets = {**(run.facets or {}), "processing_engine": engine}
    lineage_job.facets = {"jobType": job_type_job.JobTypeJobFacet("BATCH", "NIGHTSHIFT", job_type)}
    return RunEvent(eventType=state, eventTime=datetime.now(UTC).isoformat(), run=run, job=lineage_job)


def find_end(error: BaseException) -> RunState:
    """Return how a run has ended: aborted where it was preempted or interrupted, else failed."""
    return RunState.ABORT if isinstance(error, PreemptedError | KeyboardInterrupt) else RunState.FAIL


def add_error(event: RunEvent, error: BaseException) -> RunEvent:
    """Return an event with an error's message, without secrets."""
    message = printable_lines(mask_secrets(str(error) or type(error).__name__))
    facet = error_message_run.ErrorMessageRunFacet(message=message, programmingLanguage="python")
    event.run.facets = {**(event.run.facets or {}), "errorMessage": facet}
    return event


def make_parent(parent: ParentRun) -> parent_run.ParentRunFacet:
    """Return the facet that names a run's parent, and the root of all of them."""
    root = read_parent(ROOT) or parent
    return parent_run.ParentRunFacet(
        run=parent_run.Run(parent.run_id),
        job=parent_run.Job(parent.namespace, parent.job_name),
        root=parent_run.Root(parent_run.RootRun(root.run_id), parent_run.RootJob(root.namespace, root.job_name)),
    )


def find_namespace() -> str:
    """Return the namespace of the jobs."""
    return os.environ.get(NAMESPACE) or DEFAULT_NAMESPACE


def identify_run(run: RunIdentity) -> ParentRun:
    """Return a night's run, which every step identifies alike."""
    namespace = find_namespace()
    return ParentRun(namespace, run.job_name, str(uuid5(NAMESPACE_URL, f"{namespace}/{run.root}")))


def read_parent(variable: str) -> ParentRun | None:
    """Return the run that an orchestrator names in a variable, `namespace/job/run`; None for any other text."""
    rest, _, run_id = os.environ.get(variable, "").rpartition("/")
    namespace, _, job_name = rest.rpartition("/")
    try:
        return ParentRun(namespace, job_name, str(UUID(run_id))) if namespace and job_name else None
    except ValueError:
        return None


def find_start() -> datetime:
    """Return when the try of this process began, and hand it on to the processes that it becomes or starts."""
    return datetime.fromisoformat(os.environ.setdefault(STARTED, datetime.now(UTC).isoformat()))
