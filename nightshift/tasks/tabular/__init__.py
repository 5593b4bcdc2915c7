"""Rows of a table: is an event a positive one."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # by which a type checker holds each module to its protocol
    from nightshift.tasks import protocol
    from nightshift.tasks.tabular import (
        drift,
        evaluation,
        examples,
        features,
        ingestion,
        labels,
        metrics,
        optimization,
        profiling,
        release,
        scoring,
        simulator,
        training,
    )

    _drift: protocol.DriftTask = drift
    _evaluation: protocol.Evaluation = evaluation
    _examples: protocol.Examples = examples
    _features: protocol.Features = features
    _ingestion: protocol.Ingestion = ingestion
    _labels: protocol.Labels = labels
    _metrics: protocol.Metrics = metrics
    _optimization: protocol.Optimization = optimization
    _profiling: protocol.Profiling = profiling
    _release: protocol.Release = release
    _scoring: protocol.Scoring = scoring
    _simulator: protocol.Simulating = simulator
    _training: protocol.Training = training
