"""Monitoring's request for a retraining, and what became of it."""

from pydantic import Field

from nightshift.contracts.artifact import Artifact


class RetrainingRequest(Artifact):
    """Whether monitoring asks for a retraining."""

    retrain: bool
    reason: str = Field(description="why, or why not; sentences")
    key: str = Field(description="the same for a day however often it asks, so that a request is carried out once")


class Launch(Artifact):
    """What became of a request, or of a start by the clock."""

    new: bool = Field(description="whether a run was started; false where it was there already, or none was asked for")
    said: str = Field(description="what was done, or how to do it where there is no Kubeflow")
    reason: str = Field(description="why a run was asked for, or why not")
    run: str | None = Field(None, description="the run's name")
    run_id: str | None = Field(None, description="Kubeflow's id of it")
    url: str | None = Field(None, description="its page")
