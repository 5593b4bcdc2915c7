"""What images and texts share: one class of several for each."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # by which a type checker holds each module to its protocol
    from nightshift.tasks import protocol
    from nightshift.tasks.classification import (
        drift,
        evaluation,
        examples,
        features,
        labels,
        metrics,
        optimization,
        profiling,
        release,
        scoring,
        training,
    )

    _drift: protocol.DriftTask = drift
    _evaluation: protocol.EvaluationTask = evaluation
    _examples: protocol.ExamplesTask = examples
    _features: protocol.FeaturesTask = features
    _labels: protocol.LabelsTask = labels
    _metrics: protocol.MetricsTask = metrics
    _optimization: protocol.OptimizationTask = optimization
    _profiling: protocol.ProfilingTask = profiling
    _release: protocol.ReleaseTask = release
    _scoring: protocol.ScoringTask = scoring
    _training: protocol.TrainingTask = training
