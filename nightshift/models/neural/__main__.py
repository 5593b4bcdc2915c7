"""torchrun for machines that may be taken away.

    python -m nightshift.models.neural --standalone --nproc-per-node 2 -m components.training ...

The flags are torchrun's. On SIGTERM, or when the cloud that NIGHTSHIFT_SPOT names announces the machine's end, the
processes save a checkpoint, and the exit code is 75, where torchrun's would be 1.

Where PET_MASTER_ADDR and PET_NODE_RANK are set, as Kubeflow Trainer does, machines meet at that one's store (c10d).
"""

import os
import signal
import sys
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

from torch.distributed import run
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from nightshift.models.neural import preemption
from nightshift.runtime.errors import UserError
from nightshift.runtime.step import PREEMPTED, USER_ERROR
from nightshift.storage import once

STARTUP_SECONDS = 1800  # a machine may have to be made first, and the others wait for it


def main(arguments: list[str]) -> int:
    """Run torchrun with its own flags; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "saved"
        os.environ |= {preemption.SAVED: str(saved), once.FOLDER: folder}
        try:
            preemption.watch()
            # not as a flag, which PyTorch 2.10 on GPUs does not know
            os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(preemption.SHUTDOWN_SECONDS))
            meet(os.environ)
            run.run(run.parse_args(arguments))  # type: ignore[no-untyped-call]
        except UserError as error:
            print(error, file=sys.stderr)
            return USER_ERROR
        except SignalException as error:
            return PREEMPTED if saved.exists() else 128 + signal.Signals(error.sigval)
        except ChildFailedError as error:
            return PREEMPTED if saved.exists() else _first(error)
    return 0


def meet(environment: MutableMapping[str, str]) -> None:
    """Have torchrun meet other machines at the store of the first, where the environment says which that is.

    It is the first by its number: by its name, which may not be known yet, torchrun could take it for another one.
    """
    if host := environment.get("PET_MASTER_ADDR"):
        environment.setdefault("PET_RDZV_BACKEND", "c10d")
        environment.setdefault("PET_RDZV_ENDPOINT", f"{host}:{environment['PET_MASTER_PORT']}")
        is_first, seconds = environment["PET_NODE_RANK"] == "0", STARTUP_SECONDS
        conf = f"is_host={is_first},join_timeout={seconds},read_timeout={seconds}"
        environment.setdefault("PET_RDZV_CONF", conf)
        # a store for each attempt (`processes._store`), not one for all, whose number machines count differently
        environment.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")


def _first(error: ChildFailedError) -> int:
    """Return the exit code of the process that failed first, 1 for one that was killed."""
    print(error, file=sys.stderr)
    _, failure = error.get_first_failure()
    return max(failure.exitcode, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
