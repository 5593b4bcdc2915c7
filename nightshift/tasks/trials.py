"""One evaluation, whatever the task: who stood against whom, and whether the challenger may replace the champion."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, Self, TypeVar

from nightshift.config import Config
from nightshift.contracts import evaluation as contract
from nightshift.contracts.artifact import FoldWindow
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.verdict import Decision, Measure, Opponent, Verdict
from nightshift.stats.comparison import Floats, PairedComparison, Resampled


@dataclass(frozen=True, kw_only=True)
class Contender(Resampled):
    """A model version, measured on the test rows.

    Attributes:
        sha256: its identity.
        trained_until: last day of its training data, YYYY-MM-DD.
        metrics: on the test rows.
        resamples: metrics on the same resamples of the test rows, float64 of shape (resamples,) each.
        version: its number in the registry, 0 before it has one.
    """

    sha256: str
    trained_until: str
    metrics: Mapping[str, Any]
    resamples: Mapping[str, Floats] = field(repr=False)
    version: int = 0

    @classmethod
    def from_model(cls, model: ModelPackage, version: int, **measured: Any) -> Self:
        """Return a version of a model, with what was measured of it."""
        return cls(sha256=model.sha256, trained_until=str(model.lineage.train.last), version=version, **measured)

    @property
    def figures(self) -> contract.Metrics:
        """The metrics by name."""
        return dict(self.metrics)

    def value(self, name: str) -> float:
        """Return a resampled metric on the rows themselves."""
        return float(self.metrics[name])


C = TypeVar("C", bound=Contender)


@dataclass(frozen=True)
class Trial(Generic[C]):
    """One evaluation.

    Attributes:
        config: the use case.
        model: the challenger.
        test: the test window.
        candidates: each of the model's candidates, measured on the test rows.
        champion: measured on the same rows, or a sentence why there is none.
        verdict: what became of it.
    """

    config: Config
    model: ModelPackage
    test: FoldWindow
    candidates: dict[str, C]
    champion: C | str
    verdict: Verdict

    @property
    def challenger(self) -> C:
        """The candidate that was selected in training."""
        return self.candidates[self.model.selected]

    @property
    def rival(self) -> C | None:
        """The champion, where there is one to compare with."""
        return None if isinstance(self.champion, str) else self.champion

    def shared_figures(self) -> dict[str, Any]:
        """Return what `evaluation.json` has of every task."""
        rival = self.rival
        gains = self.challenger.gains(rival) if rival else None
        return {
            "test": self.test,
            "models": {name: contender.figures for name, contender in self.candidates.items()},
            "selected": self.model.selected,
            "intervals": {name: contender.intervals() for name, contender in self.candidates.items()},
            "champion": rival and contract.Champion(version=rival.version, sha256=rival.sha256, metrics=rival.figures),
            "gains": gains and {name: contract.Gain(**asdict(gain)) for name, gain in gains.items()},
        }


@dataclass(frozen=True)
class Gate:
    """What a challenger has to pass.

    Attributes:
        metric: by which it is compared with the champion.
        tolerance: how much of it a fresher model may lose.
        undecidable: why nothing can be decided, a sentence each.
        refused: floors that it misses, and whatever else keeps it out, a sentence each.
        passed: says that it passes the floors.
        remarks: on the comparison with the champion, where there is one.
        measures: of the verdict.
    """

    metric: str
    tolerance: float
    undecidable: Sequence[str]
    refused: Sequence[str]
    passed: str
    measures: list[Measure]
    remarks: Sequence[str] = field(default_factory=list)


def judge(challenger: C, champion: C | str, gate: Gate) -> Verdict:
    """Decide whether the challenger may replace the champion.

    The rule:

    1. Nothing is decided where the test rows cannot decide.
    2. The challenger fails when it misses a floor of its task.
    3. Without a champion that can be measured, these floors are all there is to pass.
    4. Between a model and itself there is nothing to decide.
    5. The challenger passes when it is better beyond noise: the paired 95 % interval of its gain in the gate's metric
       lies above 0.
    6. It passes when it is non-inferior and fresher: that interval lies above -tolerance, and it was trained
       on days newer than the champion's. Equals of the same days never replace one another.
    7. Otherwise it fails.

    Deployment promotes nothing that is not fresher, whatever is said here.

    Args:
        challenger: the new model.
        champion: the version that serves, or a sentence why there is none to compare with.
        gate: what it has to pass.
    """
    decision, reasons = _decide(challenger, champion, gate)
    rival = None if isinstance(champion, str) else champion
    return Verdict(
        gate="evaluation",
        decision=decision,
        reasons=reasons,
        measures=[
            *gate.measures,
            *([_gain(challenger, rival, gate)] if rival and gate.metric in rival.resamples else []),
        ],
        subject=challenger.sha256,
        compared_with=rival and Opponent(version=rival.version, sha256=rival.sha256),
    )


def _decide(challenger: C, champion: C | str, gate: Gate) -> tuple[Decision, list[str]]:
    if gate.undecidable or gate.refused:
        absent = [champion] if isinstance(champion, str) else []
        decision = Decision.UNDECIDED if gate.undecidable else Decision.FAIL
        return decision, [*absent, *gate.undecidable, *gate.refused]
    if isinstance(champion, str):
        return Decision.PASS, [champion, gate.passed]
    if challenger.sha256 == champion.sha256:
        return Decision.UNDECIDED, [f"The challenger is identical to champion version {champion.version}."]
    ours, theirs = (contender.estimates()[gate.metric] for contender in (challenger, champion))
    gain = challenger.gains(champion)[gate.metric]
    compared = PairedComparison(gate.metric, ours, theirs, gain, challenger.trained_until, champion.trained_until)
    decision, reasons = compared.decide(champion.version, gate.tolerance)
    return decision, [*reasons, *gate.remarks]


def _gain(challenger: C, champion: C, gate: Gate) -> Measure:
    gain = challenger.gains(champion)[gate.metric]
    interval = (gain.low, gain.high)
    return Measure(name=f"{gate.metric}_gain", value=gain.value, limit=-gate.tolerance, interval=interval)
