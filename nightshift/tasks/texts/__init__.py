"""Texts: which class each is of."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # by which a type checker holds each module to its protocol
    from nightshift.tasks import protocol
    from nightshift.tasks.classification import kinds
    from nightshift.tasks.texts import candidates, descriptors, display, ingestion, simulator, views

    _candidates: kinds.Candidates = candidates
    _descriptors: kinds.Descriptors = descriptors
    _display: kinds.Display = display
    _ingestion: protocol.IngestionTask = ingestion
    _simulator: protocol.SimulationTask = simulator
    _views: kinds.Views = views
