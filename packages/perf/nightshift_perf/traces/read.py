"""Opens what a profiler has written, by what the file holds and not by its name."""

from pathlib import Path

from nightshift import storage
from nightshift.runtime.errors import UserError
from nightshift.storage import stores
from nightshift_perf.traces import compute, kineto, nsight
from nightshift_perf.traces.ceiling import KernelCounters
from nightshift_perf.traces.trace import Trace

SQLITE = b"SQLite format 3\x00"
REPORTS = {
    ".nsys-rep": nsight.EXPORT,
    ".qdrep": nsight.EXPORT,
    ".ncu-rep": "export it with: ncu --import FILE.ncu-rep --csv --page raw > kernels.csv",
}


def read(uri: str) -> Trace | list[KernelCounters]:
    """Read a trace of torch.profiler or Nsight Systems, or the metrics of kernels by Nsight Compute.

    Args:
        uri: a file here or in an object store.

    Raises:
        UserError: when it is missing, of no known kind, empty, broken or truncated.
    """
    if export := REPORTS.get(Path(uri).suffix):
        raise UserError(f"{uri} is in NVIDIA's own format; {export}")
    with storage.on_disk(uri) as path:
        try:
            with open(path, "rb") as file:
                start = file.read(4096)
                if start.startswith(SQLITE):
                    return nsight.read(path, uri)
                if (b'"ID"' in start and b'"Kernel Name"' in start) or start.startswith(b"==PROF=="):
                    file.seek(0)
                    return compute.read((line.decode(errors="replace") for line in file), uri)
                return kineto.read(file, uri)
        except OSError as error:
            raise stores.explain(error, uri) from error
