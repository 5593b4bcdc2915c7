"""Samples of a GPU, by a library that answers as NVML does; none of it has run on a GPU."""

import threading
from types import SimpleNamespace

import pytest

from components.profiling import sampling

SM = 2


class Nvml:
    """GPU 1 of two; it has been queried when `queried` is set."""

    NVML_GPM_METRIC_SM_UTIL = SM
    NVML_GPM_METRICS_GET_VERSION = 1

    class NVMLError(Exception):
        pass

    def __init__(self, has_gpm, fails_after=1000):
        self.has_gpm, self.left, self.held = has_gpm, fails_after, 0
        self.queried = threading.Event()

    def _count(self):
        self.left -= 1
        self.queried.set()
        if self.left < 0:
            raise self.NVMLError

    def nvmlDeviceGetHandleByIndex(self, number):
        return f"GPU {number}"

    def nvmlGpmQueryDeviceSupport(self, device):
        assert device == "GPU 1"
        return SimpleNamespace(isSupportedDevice=self.has_gpm)

    def nvmlDeviceGetUtilizationRates(self, device):
        self._count()
        return SimpleNamespace(gpu=90)

    def nvmlGpmSampleAlloc(self):
        self.held += 1
        return object()

    def nvmlGpmSampleFree(self, sample):
        self.held -= 1

    def nvmlGpmSampleGet(self, device, sample):
        return sample

    def c_nvmlGpmMetricsGet_t(self):
        return SimpleNamespace(metrics=[SimpleNamespace(metricId=0, value=0.0) for _ in range(8)])

    def nvmlGpmMetricsGet(self, query):
        self._count()
        assert query.sample1 is not query.sample2
        (metric,) = query.metrics[: query.numMetrics]
        metric.value = {SM: 80.0}[metric.metricId]
        return query


def sample(nvml):
    with sampling.sample_activity(nvml, 1) as samples:
        assert nvml.queried.wait(60)
    return samples


@pytest.mark.parametrize(("has_gpm", "percent"), [(1, 80), (0, 90)])
def test_activity_is_sampled_during_a_block(has_gpm, percent):
    nvml = Nvml(has_gpm)
    (activity,) = sample(nvml)
    assert activity.sm_pct == percent
    assert activity.samples >= 1
    assert nvml.held == 0


@pytest.mark.parametrize("has_gpm", [0, 1])
def test_an_error_of_the_library_ends_the_samples_and_not_the_run(has_gpm):
    nvml = Nvml(has_gpm, fails_after=0)
    assert sample(nvml) == []
    assert nvml.held == 0


def test_without_a_library_nothing_is_sampled():
    with sampling.sample_activity(None) as samples:
        pass
    assert samples == []
