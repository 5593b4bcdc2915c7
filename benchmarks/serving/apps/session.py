"""The model in ONNX Runtime, as each of the other servers calls it."""

import os

import numpy as np
import onnxruntime


def load() -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(os.environ["MODEL"], options, providers=["CPUExecutionProvider"])


def score(session: onnxruntime.InferenceSession, rows: object) -> list[float]:
    return session.run(["score"], {"inputs": np.asarray(rows, np.float32)})[0].tolist()
