"""How much memory a process has taken, on Linux and macOS."""

import re
import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_memory(ended: resource.struct_rusage | None = None, platform: str = sys.platform) -> int:
    """Return the largest resident set of a process, in bytes.

    Args:
        ended: what `os.wait4` says of a child that has ended; without it, this process is measured.
        platform: as in `sys.platform`.
    """
    if ended is None and platform == "linux":
        # not ru_maxrss, which on Linux begins with what the parent process had before it started this one
        match = re.search(r"^VmHWM:\s+(\d+) kB$", STATUS.read_text(), re.MULTILINE)
        assert match, f"{STATUS} states VmHWM"
        return int(match[1]) * 1024
    usage = ended or resource.getrusage(resource.RUSAGE_SELF)
    # macOS counts bytes, Linux KiB
    return usage.ru_maxrss if platform == "darwin" else usage.ru_maxrss * 1024
