"""Ctrl-C and SIGTERM while steps run: one thread handles them, so that none is lost.

Python raises KeyboardInterrupt between any two instructions of the main thread: in the start of a thread, whose step
goes on, or in a destructor, which swallows it. Here the kernel's signal is a byte in a pipe, and raises nothing.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)
END = bytes(1)  # is no signal's number
SIGNALED = 128  # added to a signal's number in a shell's exit code
STDOUT = 1  # the descriptor: `sys.stdout` is None where it is closed
SHOW_CURSOR = b"\033[?25h"  # which a table that is redrawn hides


class InterruptedRunError(KeyboardInterrupt):
    """A signal has stopped a run; `exit_code` is what a shell makes of the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = SIGNALED + number


@contextmanager
def stop_on_signal(stop: Callable[[int], None]) -> Iterator[None]:
    """Stop the block's work on the first SIGINT or SIGTERM, and end the process on the second.

    Blocks may be nested: the innermost handles a signal. Outside of the main thread, signals stay as they are.

    Args:
        stop: called once with the signal, in a thread of its own; the block is expected to end soon after.

    Raises:
        InterruptedRunError: at the end of a block that was stopped.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    received: list[int] = []
    watcher = threading.Thread(target=_watch, args=(reader, received, stop), daemon=True)
    watcher.start()
    wakeup = signal.set_wakeup_fd(writer)
    handlers = {number: signal.signal(number, _ignore) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        os.write(writer, END)
        watcher.join()
        os.close(writer)
        os.close(reader)
    if received:
        raise InterruptedRunError(received[0])


def exit_now(number: int) -> None:
    """End the process as abruptly as a kill would, which loses nothing; its steps end with it."""
    with suppress(OSError):  # a terminal that is gone
        if os.isatty(STDOUT):
            os.write(STDOUT, SHOW_CURSOR)
    os._exit(SIGNALED + number)


def _watch(reader: int, received: list[int], stop: Callable[[int], None]) -> None:
    stopper: threading.Thread | None = None
    for number in iter(lambda: os.read(reader, 1)[0], END[0]):
        if number in ENDING and stopper:
            exit_now(number)
        elif number in ENDING:
            received.append(number)
            stopper = threading.Thread(target=stop, args=(number,), daemon=True)
            stopper.start()
    if stopper:
        stopper.join()


def _ignore(number: int, frame: FrameType | None) -> None:
    """Take the place of a handler that raises."""
