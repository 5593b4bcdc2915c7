"""torchrun for machines that may be taken away.

    python -m components.neural --standalone --nproc-per-node 2 -m components.training ...

The flags are torchrun's. On SIGTERM, or when the cloud that NIGHTSHIFT_SPOT names announces the machine's end, the
processes save a checkpoint, and the exit code is 75, where torchrun's would be 1.
"""

import os
import signal
import sys
import tempfile
from pathlib import Path

from torch.distributed import run
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from components.common.errors import UserError
from components.common.step import PREEMPTED, USER_ERROR
from components.neural import preemption

SECONDS = "110"  # for a checkpoint, of the two minutes that AWS gives


def main(words: list[str]) -> int:
    """Run torchrun with its own flags; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "saved"
        os.environ[preemption.SAVED] = str(saved)
        try:
            preemption.watch()
            # not as a flag, which PyTorch 2.10 on GPUs does not know
            os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", SECONDS)
            run.run(run.parse_args(words))  # type: ignore[no-untyped-call]
        except UserError as error:
            print(error, file=sys.stderr)
            return USER_ERROR
        except SignalException as error:
            return PREEMPTED if saved.exists() else 128 + signal.Signals(error.sigval)
        except ChildFailedError as error:
            return PREEMPTED if saved.exists() else _first(error)
    return 0


def _first(error: ChildFailedError) -> int:
    """Return the exit code of the process that failed first, 1 for one that was killed."""
    print(error, file=sys.stderr)
    _, failure = error.get_first_failure()
    return max(failure.exitcode, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
