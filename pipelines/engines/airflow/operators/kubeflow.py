"""A whole pipeline as a run on Kubeflow, which a trigger waits for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from nightshift.cluster.kubeflow import Definition, KubeflowApi, KubeflowTarget
from nightshift.runtime.errors import UnavailableError, UserError
from pipelines.engines.airflow.operators.context import EXPERIMENT, Rendering
from pipelines.engines.airflow.operators.links import KUBEFLOW_RUN
from pipelines.engines.kubeflow.submission import ENDED, SUCCEEDED
from pipelines.environments import SERVICE_ACCOUNT


class KubeflowRunOperator(BaseOperator):
    """Starts a run named like the DAG run, unless it is there already, and waits without a worker."""

    operator_extra_links = (KUBEFLOW_RUN,)

    def __init__(self, *, rendering: Rendering, **options: Any) -> None:
        super().__init__(**options)
        self.rendering = rendering
        self.url = ""

    def execute(self, context: Any) -> None:
        """Start the run and defer until it has ended.

        Raises:
            AirflowFailException: when Kubeflow refuses.
        """
        settings = self.rendering.settings
        target = KubeflowTarget(settings.kubeflow, EXPERIMENT, settings.namespace, SERVICE_ACCOUNT)
        commands = self.rendering.commands(context)
        # a cleared task asks for another run, a step of which Kubeflow may skip
        name = f"{commands.name}-{context['ti'].try_number}"
        try:
            run = KubeflowApi(target).submit(name, Definition.read(self.rendering.pipeline.yaml), commands.arguments)
        except UserError as error:
            raise AirflowFailException(str(error)) from None
        self.url = run.url
        self.log.info("%s is %s: %s", run.name, "started" if run.new else "there already", run.url)
        trigger = KubeflowRunTrigger(asdict(target), run.run_id)
        self.defer(trigger=trigger, method_name="execute_complete", kwargs={"url": run.url})

    def execute_complete(self, context: Any, event: dict[str, str], url: str) -> None:
        """Say how the run ended.

        Raises:
            AirflowException: when it did not succeed.
        """
        self.url = url
        if event["state"] not in SUCCEEDED:
            raise AirflowException(f"the run on Kubeflow ended as {event['state']}: {url}")


class KubeflowRunTrigger(BaseTrigger):
    """Looks at a run until it has ended."""

    def __init__(self, target: dict[str, str], run_id: str, every: float = 30.0) -> None:
        """Wait for a run, looking at it `every` so many seconds."""
        super().__init__()
        self.target = target
        self.run_id = run_id
        self.every = every

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments from which another process rebuilds this trigger."""
        return f"{__name__}.{type(self).__name__}", {"target": self.target, "run_id": self.run_id, "every": self.every}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the run's state once it has ended."""
        server = KubeflowApi(KubeflowTarget.parse(self.target))
        while True:
            # a server that is away for a while has not lost the run
            with suppress(UnavailableError):
                run = await asyncio.to_thread(server.run, self.run_id)
                if run.state in ENDED:
                    yield TriggerEvent({"state": run.state})
                    return
            await asyncio.sleep(self.every)
