"""Language models: how likely each token of a text is after those before it. No row has a label."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # by which a type checker holds each module to its protocol
    from nightshift.tasks import protocol
    from nightshift_llm.task import (
        drift,
        evaluation,
        features,
        ingestion,
        metrics,
        optimization,
        profiling,
        release,
        scoring,
        simulator,
        training,
    )

    _drift: protocol.DriftTask = drift
    _evaluation: protocol.EvaluationTask = evaluation
    _features: protocol.FeaturesTask = features
    _ingestion: protocol.IngestionTask = ingestion
    _metrics: protocol.MetricsTask = metrics
    _optimization: protocol.OptimizationTask = optimization
    _profiling: protocol.ProfilingTask = profiling
    _release: protocol.ReleaseTask = release
    _scoring: protocol.ScoringTask = scoring
    _simulator: protocol.SimulationTask = simulator
    _training: protocol.TrainingTask = training
