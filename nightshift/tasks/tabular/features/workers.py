"""Who runs the tasks of sharded features: this process, or the workers of a Dask cluster.

The only file that imports distributed or dask_cuda.
"""

import importlib.util
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from nightshift.runtime.errors import UnavailableError, UserError, suggest_install
from nightshift.runtime.lineage import code_version

if TYPE_CHECKING:
    from distributed import Client

SECONDS = 60

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class TaskPool:
    """Who runs tasks.

    Attributes:
        count: how many tasks run at once.
        client: of the cluster; None runs them in this process.
    """

    count: int = 1
    client: "Client | None" = None

    def run(self, task: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return what a task makes of each item.

        On a cluster, a task whose worker was lost runs again on another one. When one fails, none is begun any more,
        and those that run have a minute to end, since they write files.
        """
        if self.client is None:
            return [task(item) for item in items]
        # a task is not a function of its arguments alone, so that none may be answered from memory
        futures = self.client.map(task, items, pure=False)
        try:
            outputs: list[R] = self.client.gather(futures)
        except Exception:
            with suppress(Exception):  # the cluster may be what failed
                self.client.cancel(futures)
                _await_idle(self.client)
            raise
        return outputs


def _await_idle(client: "Client") -> None:
    until = time.monotonic() + SECONDS
    while any(client.run(_is_busy).values()) and time.monotonic() < until:
        time.sleep(0.1)


def _is_busy(dask_worker: Any) -> bool:  # Dask gives the worker to an argument of this name
    return bool(dask_worker.state.all_running_tasks)  # those that were canceled among them


@contextmanager
def workers(where: str, device: str, seconds: int = SECONDS) -> Iterator[TaskPool]:
    """Give the workers of a cluster.

    Args:
        where: a scheduler's address, `local:<workers>`, or nothing for this process; see `State.dask`.
        device: what each worker computes on.
        seconds: until there is a scheduler, and until it has a worker.

    Raises:
        UserError: when Dask is missing, or the workers run other code.
        UnavailableError: when the cluster does not answer, or a task has lost one worker after the other.
    """
    if not where:
        yield TaskPool()
        return
    if not importlib.util.find_spec("distributed"):
        fix = f"run {suggest_install('dask')}, or leave it out"
        raise UserError(f"state.dask is {where!r}, and Dask is missing; {fix}")
    import distributed

    # a worker that is lost, and started again, is a warning to Dask
    logging.getLogger(distributed.__name__).setLevel(logging.ERROR)
    with _explain_failure(where), ExitStack() as stack:
        scheme, _, count = where.partition(":")
        address = stack.enter_context(_cluster(int(count), device)) if scheme == "local" else where
        client = stack.enter_context(_client(address, seconds))
        client.wait_for_workers(1, timeout=seconds)
        check_code(client, where)
        yield TaskPool(sum(client.nthreads().values()), client)


def _cluster(count: int, device: str) -> Any:
    """Return a cluster on this machine that no other user can reach: whoever reaches a scheduler runs code."""
    # without a dashboard the scheduler still has a page of metrics, by default at a port that another cluster may have
    metrics = {"scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"}}
    private: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": None, "security": True} | metrics
    if device == "cpu":
        from distributed import LocalCluster

        return LocalCluster(n_workers=count, **private)
    if not importlib.util.find_spec("dask_cuda"):
        fix = f"run {suggest_install('gpu,dask-cuda')}, or leave it out"
        raise UserError(f"state.dask=local:{count} with --device cuda needs dask-cuda, and it is missing; {fix}")
    from dask_cuda import LocalCUDACluster

    return LocalCUDACluster(n_workers=count, **private)  # a GPU each


def _client(address: Any, seconds: int) -> "Client":
    from distributed import Client

    return Client(address, timeout=seconds, set_as_default=False)


def check_code(client: "Client", where: str) -> None:
    """Refuse workers whose code is another: their features would lie under the name of ours."""
    ours = code_version()
    try:
        theirs = set(client.run(code_version).values())
    except ImportError as error:
        raise UserError(f"workers of {where} lack this project ({error}); install {ours} there") from None
    if other := sorted(theirs - {ours}):
        raise UserError(f"workers of {where} run {', '.join(other)}, this step {ours}; start them from the same code")


@contextmanager
def _explain_failure(where: str) -> Iterator[None]:
    """Say in a line that a cluster failed."""
    from distributed import CancelledError, KilledWorker

    try:
        yield
    except (KilledWorker, CancelledError, OSError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        fix = "check its scheduler and workers, then run the same command again"
        raise UnavailableError(f"Dask at {where}: {reason}; {fix}") from error
