"""Checkpoints of a training: written aside while it runs, complete or ignored, resumed by any number of processes.

A checkpoint is a folder of PyTorch's distributed checkpoint, each process's share in a file of its own.
`checkpoint.json` is written last, by which it is complete.
"""

import io
import logging
import pickle
import time
import warnings
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import IO, Any, cast

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta

from nightshift import storage
from nightshift.models.neural import preemption
from nightshift.models.neural.losses import DivergedError
from nightshift.models.neural.preemption import PreemptionNotice
from nightshift.models.neural.processes import PATIENCE
from nightshift.models.neural.replica import Values
from nightshift.models.neural.trainer import COMPRESSION, NetworkTraining
from nightshift.runtime.errors import UserError

log = logging.getLogger("nightshift")

FILE, METADATA_FILE = "checkpoint.json", ".metadata"
KEPT = 2
NOTHING, SAVE, STOP = range(3)

# a warning to single processes, which are meant to be single
warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable or uninitialized")


@contextmanager
def open_checkpoints(root: str, seconds: float) -> "Iterator[Checkpoints]":
    """Give the checkpoints of a training below a URI; a checkpoint begins every so many seconds, and on SIGTERM."""
    with preemption.heed_sigterm() as notice:
        yield Checkpoints(root, seconds, notice)


class Checkpoints:
    """The checkpoints of one training, as each of its processes sees them.

    Args:
        root: URI of their folder, which holds those of this training only.
        seconds: between two.
        notice: whether the training has to end.
    """

    def __init__(self, root: str, seconds: float, notice: PreemptionNotice) -> None:
        self.root, self.seconds, self.notice = root, seconds, notice
        self._processes = Together() if dist.is_initialized() else Alone()
        self._saved = time.monotonic()
        self._pending: tuple[Future[Any], dict[str, Any]] | None = None

    def resume(self, training: NetworkTraining) -> None:
        """Take a training to where its newest whole checkpoint was saved, if there is one.

        A damaged one is removed, and the one before is tried: without any, the training starts anew, which costs time
        and nothing else.

        Raises:
            UserError: when it holds anything but tensors.
        """
        newest = self._processes.first(self._newest() if self._processes.is_first else 0)
        if not newest:
            return
        folder = self._folder(newest)
        reader = CheckpointReader(folder)
        state = select_saved(training.state(), reader.read_metadata(), folder)  # what it refuses would be a traceback
        dcp.load(state, storage_reader=reader, **self._processes.options)  # type: ignore[attr-defined]
        training.load(state, storage.read_json(storage.join(folder, FILE))["notes"])
        log.info("resuming after step %d, from %s", newest, folder)

    def _newest(self) -> int:
        """Return the step of the newest checkpoint that is whole, 0 without any, and remove those that are not."""
        complete = self.complete()
        for step in reversed(complete):
            damage = find_damage(self._folder(step))
            if not damage:
                return step
            log.warning("the checkpoint after step %d is damaged (%s) and is removed", step, damage)
            storage.remove_folder(self._folder(step))
        if complete:
            log.warning("no checkpoint is whole: the training starts anew")
        return 0

    def after(self, training: NetworkTraining) -> None:
        """Save a checkpoint when it is time.

        Raises:
            PreemptedError: when the machine is about to be taken away, after a checkpoint has been saved.
        """
        if self._pending and self._pending[0].done():
            self._publish()
        decided = self._processes.agree(self._wish())
        if decided == NOTHING:
            return
        self.save(training)
        if decided == STOP:
            self.finish()
            folder = self._folder(training.done)
            raise preemption.report_saved(f"step {training.done} of {training.steps} is saved in {folder}")

    def save(self, training: NetworkTraining) -> None:
        """Begin to write a checkpoint; the training may go on meanwhile.

        Raises:
            DivergedError: when losses or weights are not finite, of which nothing is written.
        """
        self._publish()
        notes = training.notes()
        if self._processes.agree_any(not training.replica.is_finite()):
            raise DivergedError(f"the weights after step {training.done:,} are not finite")
        folder = self._folder(training.done)
        writer = FsspecWriter(folder, sync_files="://" not in folder)
        # the writer copies all tensors to the host before this returns, so that later steps do not touch them
        future = dcp.async_save(training.state(), storage_writer=writer, **self._processes.options)  # type: ignore[attr-defined]
        assert isinstance(future, Future)
        self._pending = future, notes
        self._saved = time.monotonic()

    def finish(self) -> None:
        """Wait until what has begun is written."""
        self._publish()
        self._processes.first(0)

    def newest(self) -> str:
        """Return the folder of the newest complete checkpoint; empty without any."""
        return self._folder(self.complete()[-1]) if self.complete() else ""

    def complete(self) -> list[int]:
        """Return the steps after which there is a complete checkpoint."""
        folders = [name for name in storage.names(self.root) if name.startswith("step-")]
        return sorted(
            int(name.removeprefix("step-")) for name in folders if storage.exists(storage.join(self.root, name, FILE))
        )

    def _wish(self) -> int:
        if self.notice.received:
            return STOP
        return SAVE if time.monotonic() - self._saved >= self.seconds else NOTHING

    def _publish(self) -> None:
        """Wait for what is being written, declare it complete, and remove what it makes superfluous."""
        if not self._pending:
            return
        future, notes = self._pending
        folder = self._folder(notes["step"])
        self._pending = None
        wait(future, folder)
        if not self._processes.is_first:
            return
        hashes = {"metadata": _hash(folder, METADATA_FILE), "notes": storage.fingerprint(notes)}
        storage.write_json(storage.join(folder, FILE), {"notes": notes, "sha256": hashes})
        keep = {f"step-{number:012d}" for number in self.complete()[-KEPT:]}
        for name in set(storage.names(self.root)) - keep:
            storage.remove_folder(storage.join(self.root, name))

    def _folder(self, step: int) -> str:
        return storage.join(self.root, f"step-{step:012d}")


def wait(future: Future[Any], folder: str) -> None:
    """Wait until a checkpoint is written.

    Raises:
        UserError: when it cannot be, on a full disk, say.
        UnavailableError: when an object store fails.
    """
    try:
        future.result()
    except dcp.CheckpointException as failed:  # type: ignore[attr-defined]
        error, _ = next(iter(failed.failures.values()))
        if isinstance(error, OSError):
            raise storage.stores.translate(error, folder, storage.stores.open_store(folder)[0]) from None
        raise


class Alone:
    """One process, which decides for itself."""

    is_first = True
    options = {"no_dist": True}  # noqa: RUF012

    def agree(self, wish: int) -> int:
        """Return the action that all ranks agree on."""
        return wish

    def agree_any(self, value: bool) -> bool:
        """Return whether it is so in any process."""
        return value

    def first(self, value: int) -> int:
        """Return the first process's value."""
        return value


class Together:
    """Several processes, which do the same after the same step."""

    def __init__(self) -> None:
        self.is_first = dist.get_rank() == 0
        # a group of its own: a checkpoint is written while gradients are exchanged
        self.options = {"process_group": dist.new_group(backend="gloo", timeout=PATIENCE)}
        self._group = dist.new_group(backend="gloo", timeout=PATIENCE)
        self._vote: tuple[Any, Tensor] | None = None

    def agree(self, wish: int) -> int:
        """Return the most urgent wish of all processes after the step before: they exchange it during this one."""
        decided = NOTHING
        if self._vote:
            work, wishes = self._vote
            work.wait()
            decided = int(wishes)
        wishes = torch.tensor(wish if decided != SAVE or wish == STOP else NOTHING)
        self._vote = dist.all_reduce(wishes, dist.ReduceOp.MAX, group=self._group, async_op=True), wishes
        return decided

    def agree_any(self, value: bool) -> bool:
        """Return whether it is so in any process; all processes wait for it."""
        shared = torch.tensor(int(value))
        dist.all_reduce(shared, dist.ReduceOp.MAX, group=self._group)
        return bool(shared)

    def first(self, value: int) -> int:
        """Return the first process's value; all processes wait for it."""
        if self._vote:
            self._vote[0].wait()
            self._vote = None
        shared = torch.tensor(value)
        dist.broadcast(shared, 0, group=self._group)
        dist.barrier(group=self._group)
        return int(shared)


class CheckpointReader(FsspecReader):
    """Reads a checkpoint whose metadata, which PyTorch pickles, can hold nothing but descriptions of tensors."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:  # noqa: ARG002
        """Return what the checkpoint holds.

        Raises:
            UserError: when there is something else in it.
        """
        with self.fs.create_stream(self.fs.concat_path(self.path, METADATA_FILE), "rb") as file:
            metadata: Metadata = _Descriptions(cast(IO[bytes], file)).load()
        if metadata.storage_meta is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata


def select_saved(state: Values, metadata: Metadata, folder: str) -> Values:
    """Return a state without the memory of a compression that a checkpoint does not have: other processes saved it.

    Raises:
        UserError: when the checkpoint is another network's.
    """
    saved = metadata.state_dict_metadata
    missing = {name for name in state.keys() - saved.keys() if name.startswith(COMPRESSION)}
    if missing:
        log.info("another number of processes saved the checkpoint: PowerSGD starts with an empty error")
    selected = {name: value for name, value in state.items() if name not in missing}
    for name, value in selected.items():
        size = getattr(saved.get(name), "size", "missing")
        if size != value.size():
            raise UserError(
                f"{folder} is of another network: its {name} is {_show(size)}, and here {_show(value.size())}; "
                "remove the folder, or give this training checkpoints of its own"
            )
    return selected


def _show(size: torch.Size | str) -> str:
    return size if isinstance(size, str) else f"({', '.join(map(str, size))})"


def find_damage(folder: str) -> str:
    """Return what is wrong with a complete checkpoint; empty when every file is as it was written.

    The metadata and the notes have their hashes beside them, each tensor the CRC-32 of the archive it is stored as.

    Raises:
        UserError: when its metadata hold anything but descriptions of tensors.
    """
    try:
        document = storage.read_json(storage.join(folder, FILE))
        if document["sha256"]["notes"] != storage.fingerprint(document["notes"]):
            return f"{FILE} has changed"
        if document["sha256"]["metadata"] != _hash(folder, METADATA_FILE):
            return f"{METADATA_FILE} has changed"
    except (UserError, KeyError, TypeError) as error:
        return str(error)
    infos = list(CheckpointReader(folder).read_metadata().storage_data.values())
    names = sorted({info.relative_path for info in infos})
    wrong = [name for name in names if not _is_whole(storage.join(folder, name), infos, name)]
    return f"{wrong[0]} has changed, or is missing" if wrong else ""


def _is_whole(uri: str, infos: "list[Any]", name: str) -> bool:
    """Whether every tensor of a file has its checksum."""
    try:
        content = memoryview(storage.map_file(uri))
        parts = (content[info.offset :][: info.length] for info in infos if info.relative_path == name)
        return all(zipfile.ZipFile(io.BytesIO(part)).testzip() is None for part in parts)
    except (UserError, zipfile.BadZipFile, EOFError, NotImplementedError, OSError, ValueError, RuntimeError):
        return False


def _hash(folder: str, name: str) -> str:
    return storage.sha256(storage.read_bytes(storage.join(folder, name)))


METADATA, SIZES = "torch.distributed.checkpoint.metadata", "torch.distributed.checkpoint.filesystem"
ALLOWED = {
    (METADATA, "ChunkStorageMetadata"),
    (METADATA, "Metadata"),
    (METADATA, "MetadataIndex"),
    (METADATA, "StorageMeta"),
    (METADATA, "TensorProperties"),
    (METADATA, "TensorStorageMetadata"),
    (METADATA, "_MEM_FORMAT_ENCODING"),
    (SIZES, "_StorageInfo"),
    ("torch", "Size"),
    ("torch.serialization", "_get_layout"),
}


class _Descriptions(pickle.Unpickler):
    """Knows single names, no modules, which hold what they import; no BytesStorageMetadata: PyTorch unpickles those."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in ALLOWED or (module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)):
            return super().find_class(module, name)
        raise UserError(f"the checkpoint's metadata names {module}.{name}, which no checkpoint needs; delete it")
