"""Notice that this machine is about to be taken away: SIGTERM, or what a cloud's metadata server says.

A training that has noticed saves a checkpoint and ends with exit code 75.
"""

import json
import logging
import os
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from nightshift.runtime.errors import PreemptedError, UserError, nearest

log = logging.getLogger("nightshift")

SPOT = "NIGHTSHIFT_SPOT"  # whose notices to watch for: aws or gcp, or e.g. aws=http://127.0.0.1:1338
SAVED = "NIGHTSHIFT_SAVED"  # path of a file that tells the launcher that a checkpoint was saved
SHUTDOWN_SECONDS = 110  # for a checkpoint, of the two minutes that AWS gives
SECONDS = 5.0  # between two questions; AWS gives two minutes' notice, Google Cloud 30 seconds
TIMEOUT = 2.0


@dataclass
class PreemptionNotice:
    """Whether the end has been announced."""

    received: bool = False

    def receive(self, number: int, _: FrameType | None) -> None:
        """Take a signal."""
        log.warning("%s: saving a checkpoint", signal.Signals(number).name)
        self.received = True


@contextmanager
def heed_sigterm() -> Iterator[PreemptionNotice]:
    """Have SIGTERM give notice, and end the process only once nobody has heeded it."""
    notice = PreemptionNotice()
    before, wakeup = signal.signal(signal.SIGTERM, notice.receive), signal.set_wakeup_fd(-1)
    try:
        yield notice
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.set_wakeup_fd(wakeup)
    if notice.received:  # too late for a checkpoint
        signal.raise_signal(signal.SIGTERM)


def report_saved(message: str, environment: Mapping[str, str] = os.environ) -> PreemptedError:
    """Return the error that ends a process after it has saved a checkpoint, and tell the launcher, if there is one."""
    if path := environment.get(SAVED):
        Path(path).touch()
    return PreemptedError(message)


def watch(environment: Mapping[str, str] = os.environ, seconds: float = SECONDS) -> None:
    """Send this process SIGTERM once the cloud that `NIGHTSHIFT_SPOT` names announces the machine's end.

    Raises:
        UserError: when it names another one.
    """
    if setting := environment.get(SPOT):
        cloud, _, address = setting.partition("=")
        if cloud not in CLOUDS:
            raise UserError(f"{SPOT} is {setting!r}; allowed: {', '.join(CLOUDS)}{nearest(cloud, CLOUDS)}")
        probe, default = CLOUDS[cloud]
        threading.Thread(target=_watch, args=(probe, address or default, seconds), daemon=True).start()


def aws(address: str) -> bool:
    """Return whether AWS will stop or terminate this spot instance.

    IMDSv2: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html.

    Raises:
        OSError: when the metadata server does not answer.
    """
    token = _answer(f"{address}/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"}, "PUT")
    notice = _answer(f"{address}/latest/meta-data/spot/instance-action", {"X-aws-ec2-metadata-token": token})
    return bool(notice) and json.loads(notice)["action"] in {"stop", "terminate", "hibernate"}


def gcp(address: str) -> bool:
    """Return whether Google Cloud is taking this spot VM away.

    https://cloud.google.com/compute/docs/instances/create-use-spot#detect-preemption.

    Raises:
        OSError: when the metadata server does not answer.
    """
    return _answer(f"{address}/computeMetadata/v1/instance/preempted", {"Metadata-Flavor": "Google"}).strip() == "TRUE"


CLOUDS: dict[str, tuple[Callable[[str], bool], str]] = {
    "aws": (aws, "http://169.254.169.254"),
    "gcp": (gcp, "http://metadata.google.internal"),
}


def _watch(probe: Callable[[str], bool], address: str, seconds: float) -> None:
    pause = threading.Event()
    while not _is_announced(probe, address):
        pause.wait(seconds)
    log.warning("%s announces the end of this machine", address)
    os.kill(os.getpid(), signal.SIGTERM)


def _is_announced(probe: Callable[[str], bool], address: str) -> bool:
    try:
        return probe(address)
    except (OSError, ValueError, KeyError) as error:
        log.warning("%s does not say whether this machine stays: %s", address, error)
        return False


def _answer(url: str, headers: dict[str, str], method: str = "GET") -> str:
    """Return what a metadata server answers, nothing when it has nothing there."""
    request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310
    # past any proxy
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return ""
        raise
