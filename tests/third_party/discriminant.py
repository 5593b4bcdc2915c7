"""Linear discriminant analysis, as a kind of candidate that a table's config can name."""

import numpy as np

from nightshift.candidates import CandidateKind
from nightshift.config.section import ConfigSection, Share
from nightshift.tabular.scaler import Scaler
from nightshift.tasks import onnx_export
from nightshift.tasks.fitting import Fitted

KIND = CandidateKind(fit="discriminant:fit", parameters="discriminant:Parameters")


class Parameters(ConfigSection):
    shrinkage: Share = 0.1


def fit(spec, matrix, labels):
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    scaler = Scaler.fit(matrix, spec.nullable)
    model = LinearDiscriminantAnalysis("lsqr", **Parameters(**spec.parameters).model_dump())
    model.fit(scaler.apply(matrix), labels)
    layer = model.coef_.astype(np.float32), model.intercept_.astype(np.float32)
    return Fitted(
        lambda: onnx_export.dense(scaler, [layer]), lambda rows: model.predict_proba(scaler.apply(rows))[:, 1]
    )
