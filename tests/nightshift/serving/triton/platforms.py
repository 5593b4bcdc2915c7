"""Ask a Triton as SageMaker and Vertex AI do, in the network in which this is started: FOLDER MODELS REQUEST."""

import fcntl
import json
import os
import socket
import struct
import sys
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parents[4]))
from nightshift_testkit import triton
from nightshift_testkit.processes import wait_until
from nightshift_testkit.servers import free_port

SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def main(folder: Path, models: Path, body: bytes) -> None:
    with socket.socket() as any_socket:  # a new network's loopback is down
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))
    sagemaker, vertex = free_port(), free_port()
    os.environ |= {
        "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "cached",
        "AIP_PREDICT_ROUTE": "/predict",
        "AIP_HEALTH_ROUTE": "/health",
    }
    flags = {
        "allow_sagemaker": "true",
        "sagemaker_port": sagemaker,
        "allow_vertex_ai": "true",
        "vertex_ai_port": vertex,
    }
    with triton.serve(folder, models, load_model="cached", vertex_ai_default_model="cached", **flags):
        paths = {sagemaker: ("/ping", "/invocations"), vertex: ("/health", "/predict")}
        answers = {}
        for port, (health, predict) in paths.items():
            url = f"http://127.0.0.1:{port}"
            # each platform's port is opened by itself, later than Triton's own
            answers[health] = wait_until(lambda url=url + health: _status(url), f"{url}{health} answers")
            answers[predict] = httpx.post(f"{url}{predict}", content=body).json()["outputs"][0]["data"]
    sys.stdout.write(json.dumps(answers))


def _status(url: str) -> int | None:
    try:
        return httpx.get(url).status_code
    except httpx.TransportError:
        return None


main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3].encode())
