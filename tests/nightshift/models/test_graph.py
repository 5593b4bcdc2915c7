"""What runs a graph: the real ONNX Runtime, told that the CPU is a GPU which starts, does not, or fails in a call."""

from typing import Any

import numpy as np
import pytest

from nightshift.models.graph import CPU, CUDA, Graph, runtime
from nightshift.runtime.errors import UserError
from nightshift_testkit.fixtures import graph

HERE = runtime()
EP_FAIL = HERE.capi.onnxruntime_pybind11_state.EPFail
ROWS = np.ones((2, 4), np.float32)


class Failing:
    """A session's inside whose GPU has gone."""

    def __init__(self, inside: Any) -> None:
        self._inside = inside

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inside, name)

    def run(self, *_: object) -> None:
        raise EP_FAIL("CUDA error: device lost")


class Library:
    """An ONNX Runtime for GPUs."""

    SessionOptions = HERE.SessionOptions

    def __init__(self, *, starts: bool, fails: bool = False) -> None:
        self.starts, self.fails, self.preloaded = starts, fails, 0

    def get_available_providers(self) -> list[str]:
        return [CUDA, CPU]

    def preload_dlls(self) -> None:
        self.preloaded += 1

    def InferenceSession(self, content: bytes, options: Any, providers: list[tuple[str, dict[str, str]]]) -> Any:
        names = [name for name, _ in providers]
        assert self.preloaded == (CUDA in names), "CUDA's libraries are loaded before a session, for CUDA alone"
        session = HERE.InferenceSession(content, options, providers=[CPU])
        chosen = names if self.starts else [CPU]
        session.get_providers = lambda: chosen
        if self.fails:
            session._sess = Failing(session._sess)
        return session


@pytest.mark.skipif(CUDA in HERE.get_available_providers(), reason="ONNX Runtime has CUDA here")
def test_cuda_is_refused_where_onnx_runtime_has_no_such_provider() -> None:
    with pytest.raises(UserError, match=rf"no working {CUDA} here, only .*{CPU}; use the image serving-gpu"):
        Graph(graph(0.5), provider=CUDA)


def test_cuda_is_refused_where_a_session_has_taken_the_cpu_instead() -> None:
    with pytest.raises(UserError, match=rf"no working {CUDA} here, only {CPU}; use the image serving-gpu"):
        Graph(graph(0.5), provider=CUDA, onnxruntime=Library(starts=False))


def test_a_gpu_that_fails_in_a_call_is_never_replaced_by_the_cpu() -> None:
    scorer = Graph(graph(0.5), provider=CUDA, onnxruntime=Library(starts=True, fails=True))
    with pytest.raises(EP_FAIL, match="device lost"):
        scorer.score(ROWS)


@pytest.mark.parametrize("provider", [CPU, CUDA])
def test_a_provider_that_starts_scores(provider: str) -> None:
    scorer = Graph(graph(0.5), provider=provider, onnxruntime=Library(starts=True))
    np.testing.assert_array_equal(scorer.score(ROWS), Graph(graph(0.5)).score(ROWS))
