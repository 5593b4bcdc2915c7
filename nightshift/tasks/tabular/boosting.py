"""Checkpoints of a boosting: the trees so far, to which a resumed one adds the rest."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import xgboost
from xgboost.callback import TrainingCallback

from nightshift import storage
from nightshift.models.neural import preemption
from nightshift.models.neural.preemption import PreemptionNotice

log = logging.getLogger("nightshift")

DIGEST = 64  # characters of a SHA-256, before what was saved


@dataclass(eq=False)
class Saving(TrainingCallback):  # type: ignore[misc]  # it ships no annotations
    """Saves a booster every so many seconds, and when the machine is about to be taken away.

    Attributes:
        uri: of the file.
        seconds: between two checkpoints.
        notice: whether the boosting has to end.
    """

    uri: str
    seconds: float
    notice: PreemptionNotice
    _saved: float = field(default_factory=time.monotonic)

    def after_iteration(self, model: xgboost.Booster, epoch: int, evals_log: object) -> bool:
        """Save the booster after a round, when it is time.

        Raises:
            PreemptedError: when it has to end, after it has been saved.
        """
        if not self.notice.received and time.monotonic() - self._saved < self.seconds:
            return False
        content = bytes(model.save_raw("ubj"))
        storage.write_bytes(self.uri, storage.sha256(content).encode() + content)
        self._saved = time.monotonic()
        if self.notice.received:
            raise preemption.report_saved(f"round {model.num_boosted_rounds()} is saved in {self.uri}")
        return False


@contextmanager
def keep_checkpoints(folder: str, seconds: float) -> Iterator[tuple[Saving, xgboost.Booster | None]]:
    """Give what saves a boosting below a URI, and the booster that was saved there."""
    uri = storage.join(folder, "booster.ubj")
    with preemption.heed_sigterm() as notice:
        yield Saving(uri, seconds, notice), _read_checkpoint(uri)


def _read_checkpoint(uri: str) -> xgboost.Booster | None:
    """Return the booster of a checkpoint; None without one, or when it is not what was written."""
    if not storage.exists(uri):
        return None
    content = storage.read_bytes(uri)
    digest, raw = content[:DIGEST], content[DIGEST:]
    if digest != storage.sha256(raw).encode():
        log.warning("the checkpoint %s is damaged: the boosting starts anew", uri)
        return None
    booster = xgboost.Booster()
    booster.load_model(bytearray(raw))
    return booster
