"""A whole pipeline as a run on Kubeflow, which a trigger waits for."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from components.common.errors import UserError
from components.common.kubeflow import Definition, Place, Server
from pipelines.kubeflow import ENDED, SUCCEEDED
from pipelines.operators.context import Rendering
from pipelines.operators.links import KUBEFLOW_RUN

EXPERIMENT = "nightshift"
SERVICE_ACCOUNT = "nightshift"
SECONDS = 30.0


class KubeflowRunOperator(BaseOperator):
    """Starts a run named like the DAG run, unless it is there already, and waits without a worker."""

    operator_extra_links = (KUBEFLOW_RUN,)

    def __init__(self, *, rendering: Rendering, **options: Any) -> None:
        super().__init__(**options)
        self.rendering = rendering

    def execute(self, context: Any) -> None:
        """Start the run and defer until it has ended.

        Raises:
            AirflowFailException: when Kubeflow refuses.
        """
        place = Place(self.rendering.place.kubeflow, EXPERIMENT, service_account=SERVICE_ACCOUNT)
        commands = self.rendering.commands(context)
        # a second try asks for another run: Kubeflow has tried the steps of the first one often enough
        name = f"{commands.fill_run()}-{context['ti'].try_number}"
        try:
            run = Server(place).submit(name, Definition.read(self.rendering.pipeline.yaml), commands.arguments)
        except UserError as error:
            raise AirflowFailException(str(error)) from None
        context["ti"].xcom_push(key="url", value=run.url)
        self.log.info("%s is %s: %s", run.name, "started" if run.new else "there already", run.url)
        self.defer(trigger=KubeflowRunTrigger(asdict(place), run.run_id), method_name="ended")

    def ended(self, context: Any, event: dict[str, str]) -> None:
        """Say how the run ended.

        Raises:
            AirflowException: when it did not succeed.
        """
        if event["state"] not in SUCCEEDED:
            raise AirflowException(f"the run on Kubeflow ended as {event['state']}; see its page")
