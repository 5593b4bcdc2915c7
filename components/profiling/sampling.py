"""How much of the GPU is used while something runs, sampled through NVML (nvidia-ml-py) in a thread.

From Hopper on NVML has GPM, which knows the activity of multiprocessors; before, only the share of time with any
kernel. Without a GPU or the library nothing is sampled. It has not run on a GPU: the tests give it a library of their
own.
"""

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from nightshift.contracts.profile import Activity

PERIOD = 0.1  # seconds: NVML's own figures are no newer


@dataclass
class Sampler:
    """Samples one GPU; a sample is the per cent of multiprocessors in use."""

    nvml: Any
    device: Any
    samples: list[float] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Sample until the end; an error of NVML ends it earlier."""
        with suppress(self.nvml.NVMLError):
            supports = self.nvml.nvmlGpmQueryDeviceSupport(self.device).isSupportedDevice
            for sample in self._by_gpm() if supports else self._by_utilization():
                self.samples.append(sample)

    def activity(self) -> Activity | None:
        """Return the means, None without any sample."""
        if not self.samples:
            return None
        return Activity(samples=len(self.samples), sm_pct=round(fmean(self.samples), 2))

    def _by_utilization(self) -> Iterator[float]:
        while not self.ended.wait(PERIOD):
            yield float(self.nvml.nvmlDeviceGetUtilizationRates(self.device).gpu)

    def _by_gpm(self) -> Iterator[float]:
        nvml = self.nvml
        before, after = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
        try:
            nvml.nvmlGpmSampleGet(self.device, before)
            while not self.ended.wait(PERIOD):
                nvml.nvmlGpmSampleGet(self.device, after)
                yield _utilization(nvml, before, after)
                before, after = after, before
        finally:
            nvml.nvmlGpmSampleFree(before)
            nvml.nvmlGpmSampleFree(after)


def _utilization(nvml: Any, before: Any, after: Any) -> float:
    """Return the per cent of multiprocessors in use between two samples."""
    query = nvml.c_nvmlGpmMetricsGet_t()
    query.version, query.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, 1
    query.sample1, query.sample2 = before, after
    query.metrics[0].metricId = nvml.NVML_GPM_METRIC_SM_UTIL
    return float(nvml.nvmlGpmMetricsGet(query).metrics[0].value)


def library() -> Any | None:
    """Return NVML, None where the library or the driver is missing."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    return nvml


@contextmanager
def sample_activity(nvml: Any | None, number: int = 0) -> Iterator[list[Activity]]:
    """Sample a GPU during a block; afterwards the list holds its activity, or nothing.

    Args:
        nvml: the library, None to sample nothing.
        number: of the GPU, as NVML counts.
    """
    activities: list[Activity] = []
    if nvml is None:
        yield activities
        return
    sampler = Sampler(nvml, nvml.nvmlDeviceGetHandleByIndex(number))
    thread = threading.Thread(target=sampler.run, daemon=True)
    thread.start()
    try:
        yield activities
    finally:
        sampler.ended.set()
        thread.join()
        if activity := sampler.activity():
            activities.append(activity)
