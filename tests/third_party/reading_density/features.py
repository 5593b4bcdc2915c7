"""What a model takes of a reading: itself."""

from shop_counts.features import ShopFeatures

from nightshift.tasks.base import features as base
from nightshift.tasks.base.features import FeatureDetails


class ReadingFeatures(ShopFeatures):
    @property
    def windows(self):
        return {}

    def details(self, _):
        return FeatureDetails({"numeric": self.setup.config.columns.readings, "categorical": []})


class FeaturesTask(base.FeaturesTask):
    def features(self, setup):
        return ReadingFeatures(setup)
