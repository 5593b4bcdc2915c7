"""How unlikely versions take a day's readings to be."""

import numpy as np

from nightshift.contracts import package
from nightshift.tabular.inputs import FrameScorer
from nightshift.tasks.base import release as base
from nightshift.tasks.named_inputs import select_slices


class ReleaseTask(base.ReleaseTask):
    worst = 50.0

    def losses(self, table, day, uris):
        rows = table.read([day])
        return [np.maximum(FrameScorer(uri, package.load(uri)).score(rows), 0).astype(float) for uri in uris]

    def slices(self, table, day, columns):
        return select_slices(table.read([day]), columns)
