"""KServe's ModelServer as its documentation shows it, over the Open Inference Protocol."""

import os

import kserve
import numpy as np
import session


class KServeScorer(kserve.Model):
    def __init__(self) -> None:
        super().__init__("fraud")
        self.model, self.ready = session.load(), True

    def predict(self, payload, headers=None, response_headers=None):
        scores = np.asarray(session.score(self.model, payload.inputs[0].as_numpy()), np.float32)
        output = kserve.InferOutput("score", list(scores.shape), "FP32")
        output.set_data_from_numpy(scores, binary_data=False)
        return kserve.InferResponse(payload.id or "none", "fraud", [output])


if __name__ == "__main__":
    kserve.ModelServer(http_port=int(os.environ["PORT"]), enable_grpc=False, access_log_format=None).start(
        [KServeScorer()]
    )
