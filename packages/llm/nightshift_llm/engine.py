"""Serves a model with OpenAI's API: llama.cpp in this process, or vLLM in its place on GPUs.

    python -m nightshift_llm.engine --model model.gguf --port 8080

llama.cpp's own server answers `/v1/chat/completions` and `/v1/completions`, with streams, and `/health`, `/v1/models`,
`/metrics` and `/slots`. A client that disconnects frees its slot. On SIGTERM the server stops accepting connections,
drains requests in progress and exits.
"""

import os
import re
import shutil
import signal
import socket
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightshift.http.addresses import is_loopback
from nightshift.http.bearer import read_secret
from nightshift.http.flags import parse_number
from nightshift.runtime import step
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError, require_extra
from nightshift.runtime.flags import StepParser
from nightshift_llm import DISTRIBUTION

if TYPE_CHECKING:
    from argparse import Namespace

STOPS = (signal.SIGTERM, signal.SIGINT)
LOAD = re.compile(r"^llamacpp:requests_(?:processing|deferred) (\d+)", re.MULTILINE)
QUIET_SECONDS = 0.5  # without a request, after which the last bytes of the last one are sent
POLL_SECONDS = 0.05
NUMBERS = {  # flag -> least, most, default, help
    "port": (0, 65_535, 8080, "port to listen on; 0: a free one"),
    "context": (1, 10_000_000, 4096, "maximum tokens of a prompt and its completion"),
    "slots": (1, 4096, 4, "number of requests computed at once"),
    "threads": (1, 1024, 2, "number of CPU threads of llama.cpp"),
    "gpus": (1, 1024, 1, "number of GPUs for vLLM's tensor parallelism"),
    "drain-seconds": (0, 86_400, 30, "seconds that requests in progress have after SIGTERM"),
}


@dataclass(frozen=True)
class EngineSettings:
    """How an engine is started.

    Attributes:
        model: GGUF file for llama.cpp, a folder that save_pretrained wrote for vLLM.
        name: model name in requests.
        host: address to listen on.
        port: port to listen on; 0 for a free one.
        context: maximum tokens of a prompt and its completion.
        slots: number of requests computed at once.
        threads: number of CPU threads of llama.cpp.
        gpus: number of GPUs for vLLM's tensor parallelism.
        drain_seconds: seconds that requests in progress have after SIGTERM.
        token: bearer token that requests must carry; None admits everybody.
    """

    model: str
    name: str
    host: str
    port: int
    context: int
    slots: int
    threads: int
    gpus: int
    drain_seconds: int
    token: str | None


def parser() -> StepParser:
    """Return the flags."""
    flags = StepParser("language.engine", "Serve a language model with OpenAI's API.")
    flags.prog = "python -m nightshift_llm.engine"
    flags.takes(model="GGUF file for llama.cpp; folder of a model for vLLM")
    flags.add_argument("--name", help="model name in requests (default: the file name without its extension)")
    flags.add_argument(
        "--engine",
        default="llama.cpp",
        choices=["llama.cpp", "vllm"],
        help="program that serves (default: %(default)s)",
    )
    flags.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    flags.add_argument(
        "--token-file", help="file with the bearer token that requests must carry; required unless --host is loopback"
    )
    for name, (_, _, default, text) in NUMBERS.items():
        flags.add_argument(f"--{name}", default=str(default), help=f"{text} (default: %(default)s)")
    return flags


def read_settings(args: "Namespace") -> EngineSettings:
    """Check the flags.

    Raises:
        UserError: naming the flag, its value and what is allowed.
    """
    values = {name.replace("-", "_"): bounds for name, bounds in NUMBERS.items()}
    numbers = {
        name: parse_number(name.replace("_", "-"), getattr(args, name), most, least)
        for name, (least, most, _, _) in values.items()
    }
    token = read_token(args.token_file, args.host)
    return EngineSettings(args.model, args.name or Path(args.model).stem, args.host, token=token, **numbers)


def read_token(path: str | None, host: str) -> str | None:
    """Read the token that requests must carry; None for a loopback address without a file.

    Raises:
        UserError: when the file cannot be read or is empty, or is missing for an address that other machines reach.
    """
    if path:
        return read_secret("token-file", path, "openssl rand -hex 32 prints one")
    if not is_loopback(host):
        raise UserError(f"host is {host!r}, which other machines can reach; give --token-file FILE with a bearer token")
    return None


def body(context: StepContext) -> None:
    """Serve until stopped."""
    settings = read_settings(context.args)
    if context.args.engine == "vllm":
        exec_vllm(settings)
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # also in llama.cpp's threads, which begin now
    server = start(settings)
    step.log.info("%s serves %s until SIGTERM", server.listening_address, settings.name)
    signal.sigwait(STOPS)
    drain(server, settings.drain_seconds)
    os._exit(0)  # llama.cpp's own end waits up to half a minute for a stream that is cut


def start(settings: EngineSettings) -> Any:
    """Load the model and listen; return xllamacpp's server.

    Raises:
        UserError: when xllamacpp is missing, the port is taken or the file is no model.
    """
    with require_extra("engine", "engine", DISTRIBUTION):
        import xllamacpp
    check_port(settings.host, settings.port)
    parameters = xllamacpp.CommonParams()
    parameters.model.path = settings.model
    parameters.model_alias = {settings.name}
    parameters.hostnames, parameters.port = [settings.host], settings.port
    parameters.n_parallel = settings.slots
    parameters.n_ctx = settings.context * settings.slots  # shared by the slots
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = settings.threads
    parameters.endpoint_metrics, parameters.ui = True, False
    parameters.api_keys = [settings.token] if settings.token else []
    try:
        return xllamacpp.Server(parameters)
    except RuntimeError:
        check_port(settings.host, settings.port)  # taken since
        message = f"--model is {settings.model!r}, which llama.cpp cannot load, see above; name a GGUF file"
        raise UserError(message) from None


def check_port(host: str, port: int) -> None:
    """Refuse an address that cannot be listened on.

    Raises:
        UserError: naming it.
    """
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        raise UserError(f"--host and --port are {host}:{port}: {error.strerror}; choose others") from None


def drain(server: Any, seconds: float) -> None:
    """Stop accepting connections and wait for requests in progress, up to some seconds."""
    host, port = server.listening_address.rsplit("/", 1)[1].rsplit(":", 1)
    close_listener(host, int(port))
    deadline = time.monotonic() + seconds
    quiet_since = time.monotonic()
    while (now := time.monotonic()) < min(deadline, quiet_since + QUIET_SECONDS):
        if count_requests(server):
            quiet_since = now
        time.sleep(POLL_SECONDS)
    if unanswered := count_requests(server):
        step.log.warning("%d requests are cut, which took longer than --drain-seconds %g", unanswered, seconds)


def count_requests(server: Any) -> int:
    """Return how many requests are computed or wait for a slot."""
    return sum(map(int, LOAD.findall(server.handle_metrics())))


def close_listener(host: str, port: int) -> None:
    """Have the kernel refuse connections to this process's port.

    llama.cpp ends its streams when its own listener is closed. So another socket, to which nobody connects, takes the
    listener's place, and the last connection wakes the thread that still waits for one there.
    """
    with closing(socket.create_server(("127.0.0.1", 0))) as unused:
        os.dup2(unused.fileno(), find_listener(port))
    with suppress(OSError):
        socket.create_connection((host, port), timeout=1).close()


def find_listener(port: int) -> int:
    """Return the descriptor of this process's socket that listens on a port."""
    for number in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        with suppress(OSError), closing(socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM)) as candidate:
            is_listening = candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if is_listening and candidate.getsockname()[1] == port:
                return number
    raise AssertionError(f"no socket listens on port {port}")


def exec_vllm(settings: EngineSettings) -> None:
    """Become vLLM's server.

    Raises:
        UserError: when it is not installed.
    """
    command = build_vllm_command(settings)
    if not shutil.which(command[0]):
        raise UserError("--engine is 'vllm', which is not installed; use its image, or pip install vllm on a GPU")
    token = {"VLLM_API_KEY": settings.token} if settings.token else {}  # command lines are seen by everybody
    os.execvpe(command[0], command, os.environ | token)  # noqa: S606 - no shell is wanted


def build_vllm_command(settings: EngineSettings) -> list[str]:
    """Return the command line of vLLM's server; its other options keep their defaults."""
    flags = {
        "served-model-name": settings.name,
        "host": settings.host,
        "port": settings.port,
        "max-model-len": settings.context,
        "max-num-seqs": settings.slots,
        "tensor-parallel-size": settings.gpus,
    }
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    return ["vllm", "serve", settings.model, *words]


if __name__ == "__main__":
    step.run(parser(), body)
