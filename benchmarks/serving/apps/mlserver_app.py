"""MLServer with a runtime of one's own as its documentation shows it, over the Open Inference Protocol."""

import numpy as np
import session
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class MLServerScorer(MLModel):
    async def load(self) -> bool:
        self.model = session.load()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        scores = np.asarray(session.score(self.model, NumpyCodec.decode_input(payload.inputs[0])), np.float32)
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("score", scores)])
