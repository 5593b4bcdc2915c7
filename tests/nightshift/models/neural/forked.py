"""Processes of one group on one machine, as torchrun starts them, but for imports, which are theirs together."""

import os
from collections.abc import Callable

import torch.distributed as dist
from torch import multiprocessing

HOST = "127.0.0.1"


def run(count: int, main: Callable[..., None], *arguments: str) -> None:
    """Run a function in so many processes.

    Raises:
        torch.multiprocessing.ProcessException: when one of them fails; the others are ended.
    """
    store = dist.TCPStore(HOST, 0, is_master=True, wait_for_workers=False)
    os.environ |= {"MASTER_ADDR": HOST, "MASTER_PORT": str(store.port), "WORLD_SIZE": str(count)}
    multiprocessing.start_processes(_run, (main, *arguments), count, start_method="fork")


def _run(rank: int, main: Callable[..., None], *arguments: str) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    main(*arguments)
