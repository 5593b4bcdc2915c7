"""Where CPU and GPU differ: the array module and the frame library, chosen by `--device`, never guessed.

The only file that imports cudf or cupy.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

from nightshift.runtime.errors import UserError, suggest_install

Device = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class Backend:
    """The libraries that compute on a device.

    Attributes:
        device: `cpu` or `cuda`.
        arrays: numpy or cupy.
        frames: pandas or cudf.
    """

    device: Device
    arrays: ModuleType
    frames: ModuleType

    def to_host(self, frame: Any) -> Any:
        """Return a frame of this backend as a pandas frame."""
        return frame.to_pandas() if self.device == "cuda" else frame

    def from_host(self, frame: Any) -> Any:
        """Return a pandas frame as a frame of this backend."""
        return self.frames.from_pandas(frame) if self.device == "cuda" else frame

    def frame(self, columns: dict[str, Any]) -> Any:
        """Return a frame of the given columns (arrays or series of one index), in their order, without copying."""
        # pandas would otherwise stack columns of one dtype into a second block; cudf never does, and has no flag
        return self.frames.DataFrame(columns, **({} if self.device == "cuda" else {"copy": False}))


def backend(device: str) -> Backend:
    """Load the libraries of a device.

    Raises:
        UserError: when `cuda` is asked for and its libraries or a GPU are missing. There is no fallback.
    """
    if device == "cpu":
        import numpy
        import pandas

        return Backend("cpu", numpy, pandas)
    if device == "cuda":
        return _cuda()
    raise UserError(f"device is {device!r}; allowed: cpu, cuda")


def _cuda() -> Backend:
    try:
        import cudf
        import cupy
    except ImportError as error:
        raise UserError(
            f"--device cuda needs RAPIDS, which cannot be imported ({error}); "
            f"run {suggest_install('gpu')}, or run with --device cpu"
        ) from None
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise UserError(f"--device cuda found no GPU ({error}); run with --device cpu") from None
    return Backend("cuda", cupy, cudf)
