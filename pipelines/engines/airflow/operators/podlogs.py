"""What a pod's containers print, in the task's log at once."""

import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from airflow.providers.cncf.kubernetes.utils.pod_manager import PodLoggingStatus, PodManager, parse_log_line
from kubernetes.client import models as k8s
from urllib3.exceptions import HTTPError

# seconds until a connection is there, and until one that is silent is made anew, as a server may have dropped it
TIMEOUTS = (60, 300)


class LogFollower(PodManager):
    """A pod manager that copies each line as it comes; its parent keeps the last one back until there is another."""

    def fetch_container_logs(
        self, pod: k8s.V1Pod, container_name: str, *, follow: bool = False, since_time: Any = None, **options: Any
    ) -> PodLoggingStatus:
        """Copy a container's log, to its end if `follow`, and say whether the container still runs."""
        last: datetime | None = since_time
        shown = (options["container_name_log_prefix_enabled"], options["log_formatter"])
        while True:
            try:
                for at, text in self._lines(pod, container_name, last, follow):
                    self._log_message(text, container_name, *shown)
                    last = at or last
            except HTTPError as error:
                self.log.debug("reading %s was interrupted: %s", pod.metadata.name, error)
            running = self.container_is_running(pod, container_name)
            if not (running and follow):
                return PodLoggingStatus(running=running, last_log_time=last)
            time.sleep(1)

    def _lines(
        self, pod: k8s.V1Pod, container: str, after: datetime | None, follow: bool
    ) -> Iterator[tuple[datetime | None, str]]:
        """Yield lines with their times until the connection ends, without those that were read before."""
        since = math.ceil((datetime.now(UTC) - after).total_seconds()) if after else None
        wanted = {"timestamps": True, "since_seconds": since, "follow": follow, "_request_timeout": TIMEOUTS}
        for raw in self.read_pod_logs(pod, container, **wanted):
            at, text = parse_log_line(raw.decode(errors="backslashreplace"))
            if text.strip() and not (at and after and at <= after):
                yield at, text.rstrip("\n")
