"""How unlikely the test days are, and whether a model may replace the champion."""

from shop_counts.evaluation import CountContender, CountsUnderTest

from reading_density import metrics


class ReadingContender(CountContender):
    lower_is_better = metrics.LOWER_IS_BETTER


class ReadingsUnderTest(CountsUnderTest):
    contender, metrics = ReadingContender, metrics

    def losses(self, scores):
        return scores.astype(float)


def rows(config, features, fold, _):
    return ReadingsUnderTest(config, fold.test, features.read(fold.test))
