import importlib.util

import numpy as np
import pandas as pd
import pytest

from nightshift.runtime.errors import UserError
from nightshift.tabular import frames


def test_the_cpu_computes_with_numpy_and_pandas():
    cpu = frames.backend("cpu")
    assert (cpu.device, cpu.arrays, cpu.frames) == ("cpu", np, pd)


def test_frames_of_the_cpu_are_frames_of_the_host():
    cpu, frame = frames.backend("cpu"), pd.DataFrame({"a": [1]})
    assert cpu.to_host(frame) is frame
    assert cpu.from_host(frame) is frame


def test_a_frame_holds_the_given_columns_in_their_order_without_a_copy():
    values, more = np.arange(3.0), pd.Series(["x", "y", "z"])
    frame = frames.backend("cpu").frame({"b": values, "a": more, "c": values})
    assert list(frame) == ["b", "a", "c"]
    assert np.shares_memory(frame["b"].to_numpy(), values)


@pytest.mark.parametrize("device", ["gpu", "CPU", ""])
def test_an_unknown_device_is_refused_with_those_allowed(device):
    with pytest.raises(UserError, match=f"device is '{device}'; allowed: cpu, cuda"):
        frames.backend(device)


@pytest.mark.skipif(importlib.util.find_spec("cudf") is not None, reason="RAPIDS is installed here")
def test_cuda_without_rapids_names_what_is_missing_and_what_to_do():
    with pytest.raises(
        UserError, match=r"needs RAPIDS, .*\(No module named 'cudf'\); .* pip install 'nightshift-ml\[gpu\]'"
    ):
        frames.backend("cuda")


@pytest.mark.gpu
def test_cuda_computes_with_cupy_and_cudf_and_brings_frames_back():
    cuda = frames.backend("cuda")
    frame = pd.DataFrame({"a": [1.5, 2.5], "b": ["x", "y"]})
    assert (cuda.arrays.__name__, cuda.frames.__name__) == ("cupy", "cudf")
    pd.testing.assert_frame_equal(cuda.to_host(cuda.from_host(frame)), frame, check_dtype=False)
