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
    _evaluation: protocol.Evaluation = evaluation
    _examples: protocol.Examples = examples
    _features: protocol.Features = features
    _labels: protocol.Labels = labels
    _metrics: protocol.Metrics = metrics
    _optimization: protocol.Optimization = optimization
    _profiling: protocol.Profiling = profiling
    _release: protocol.Release = release
    _scoring: protocol.Scoring = scoring
    _training: protocol.Training = training
