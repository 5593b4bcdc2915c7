"""How unlikely the test days are, and whether a model may replace the champion."""

from shop_counts.evaluation import CountContender, CountsUnderTest

from nightshift.tasks.base import evaluation as base
from reading_density.metrics import LOSS


class ReadingContender(CountContender):
    lower_is_better = (LOSS.name,)


class ReadingsUnderTest(CountsUnderTest):
    contender, metric = ReadingContender, LOSS

    def losses(self, scores):
        return scores.astype(float)


class EvaluationTask(base.EvaluationTask):
    def read_test_rows(self, config, features, fold, _):
        return ReadingsUnderTest(config, fold.test, features.read(fold.test))
