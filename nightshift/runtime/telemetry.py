"""What a step reports to Prometheus: numbers pushed to a Pushgateway at its end; no scrape would meet it alive."""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from nightshift.runtime.printable import printable

GATEWAY = "PROMETHEUS_PUSHGATEWAY_URL"
PIPELINE = "NIGHTSHIFT_PIPELINE"
TIMEOUT_SECONDS = 5.0

LABELS = 200  # values of `name`, those of the largest numbers: Prometheus keeps a series of each
LABEL_LENGTH = 128

log = logging.getLogger("nightshift")


def push(component: str, use_case: str, took: Mapping[str, Any], metrics: Mapping[str, Any]) -> None:
    """Replace what this step of this pipeline and use case has pushed before; without a gateway, do nothing.

    A number becomes a gauge, a mapping of names to numbers a gauge with the label `name`; the rest is left out.
    A gateway that fails is a line in the log: the step has done its work.

    Args:
        component: the step.
        use_case: the config's name.
        took: what it took, as `nightshift_step_<key>`.
        metrics: what it found, as `nightshift_<component>_<key>`.
    """
    gateway = os.environ.get(GATEWAY)
    if not gateway:
        return
    from http.client import HTTPException

    from prometheus_client import CollectorRegistry, push_to_gateway

    registry = CollectorRegistry()
    registry.register(_Gauges({"step": {**took, "last_success_timestamp_seconds": time.time()}, component: metrics}))
    whose = {"pipeline": os.environ.get(PIPELINE, ""), "use_case": use_case, "step": component}
    try:
        push_to_gateway(gateway, "nightshift", registry, whose, TIMEOUT_SECONDS)
    except (OSError, ValueError, HTTPException) as error:
        log.warning("%s=%s does not take this step's metrics: %s", GATEWAY, gateway, error)


def _limit_labels(values: Mapping[str, float]) -> dict[str, float]:
    """Return the largest of some numbers, under names that are short, and one line each."""
    largest = sorted(values.items(), key=lambda item: -item[1])[:LABELS]
    # where shortened names coincide, the largest number stays
    return {printable(name)[:LABEL_LENGTH]: number for name, number in reversed(largest)}


class _Gauges:
    """Group -> key -> value, as a collector of prometheus-client."""

    def __init__(self, groups: Mapping[str, Mapping[str, Any]]) -> None:
        self._groups = groups

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        for group, values in self._groups.items():
            for key, value in values.items():
                name, text = f"nightshift_{group}_{key}", f"{key} of the {group}, when it last succeeded"
                if isinstance(value, int | float):
                    yield GaugeMetricFamily(name, text, value)
                elif isinstance(value, Mapping):
                    family = GaugeMetricFamily(name, text, labels=["name"])
                    for label, number in _limit_labels(value).items():
                        family.add_metric([label], number)
                    yield family
