"""One evaluation, whatever the task: who stood against whom, and whether the challenger may replace the champion."""

from collections.abc import Iterator, Mapping, Sequence
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
        measures: of the verdict.
        remarks: on the comparison with the champion, where there is one.
        held: why a person has to look at a challenger that would pass, a sentence each; the first is a headline.
    """

    metric: str
    tolerance: float
    undecidable: Sequence[str]
    refused: Sequence[str]
    passed: str
    measures: list[Measure]
    remarks: Sequence[str] = field(default_factory=list)
    held: Sequence[str] = field(default_factory=list)


def judge(challenger: C, champion: C | str, gate: Gate, reference: C | None = None) -> Verdict:
    """Decide whether the challenger may replace the champion.

    The rule:

    1. Nothing is decided where the test rows cannot decide.
    2. The challenger fails when it misses a floor of its task.
    3. Without a champion that can be measured, these floors are all there is to pass.
    4. Between a model and itself there is nothing to decide.
    5. The challenger passes when it is better beyond noise: the paired 95 % interval of its gain in the gate's metric
       lies above 0.
    6. It fails when it is worse beyond noise: the interval lies below 0.
    7. It passes when it is non-inferior and fresher: the interval lies above -tolerance, and it was trained
       on days newer than the champion's. Equals of the same days never replace one another.
    8. Otherwise it fails.
    9. What passes so far has to be non-inferior to the reference as well, or small losses a night would add up; what
       passes by rule 5 may be anything but worse beyond noise.
    10. What passes and is held for a person is undecided.

    Deployment promotes nothing that is not fresher, whatever is said here.

    Args:
        challenger: the new model.
        champion: the version that serves, or a sentence why there is none to compare with.
        gate: what it has to pass.
        reference: the best of earlier versions, where that is not the champion.
    """
    rival = None if isinstance(champion, str) else champion
    opponents = [contender for contender in (rival, reference) if contender]
    settled = _decide(challenger, champion, gate)
    if reference and settled.decision is Decision.PASS:
        settled = _hold_to_reference(settled, challenger, rival, reference, gate)
    if rival and reference and settled.decision is Decision.FAIL:
        settled = _warn_of_champion(settled, rival, reference, gate.metric)
    if gate.held:
        settled = _hold_for_person(settled, gate.held)
    best = _find_best(challenger, opponents, gate.metric)
    return Verdict(
        gate="evaluation",
        decision=settled.decision,
        reasons=settled.reasons,
        measures=[*gate.measures, *_measure_gains(challenger, rival, reference, gate)],
        subject=challenger.sha256,
        compared_with=rival and _name(rival),
        reference=best and _name(best),
        caveat=settled.caveat,
    )


@dataclass(frozen=True)
class GateDecision:
    """A verdict's decision, its reasons, and the caveat, if any."""

    decision: Decision
    reasons: list[str]
    caveat: str = ""


def _decide(challenger: C, champion: C | str, gate: Gate) -> GateDecision:
    if gate.undecidable or gate.refused:
        absent = [champion] if isinstance(champion, str) else []
        decision = Decision.UNDECIDED if gate.undecidable else Decision.FAIL
        return GateDecision(decision, [*absent, *gate.undecidable, *gate.refused])
    if isinstance(champion, str):
        return GateDecision(Decision.PASS, [champion, gate.passed])
    if challenger.sha256 == champion.sha256:
        reason = f"The challenger is identical to champion version {champion.version}."
        return GateDecision(Decision.UNDECIDED, [reason])
    decision, reasons = _compare(challenger, champion, gate.metric).decide(champion.version, gate.tolerance)
    return GateDecision(decision, [*reasons, *gate.remarks])


def _compare(challenger: C, other: C, metric: str) -> PairedComparison:
    ours, theirs = (contender.estimates()[metric] for contender in (challenger, other))
    gain = challenger.gains(other)[metric]
    return PairedComparison(metric, ours, theirs, gain, challenger.trained_until, other.trained_until)


def _hold_to_reference(passed: GateDecision, challenger: C, rival: C | None, reference: C, gate: Gate) -> GateDecision:
    """Return what becomes of a challenger that would pass, by rule 9."""
    gain, best = challenger.gains(reference)[gate.metric], f"version {reference.version}, the best one so far"
    compared = f"Its gain over {best}, is {gain} on the same rows."
    is_improvement = rival is not None and _compare(challenger, rival, gate.metric).is_better
    if gain.high >= 0 and (is_improvement or gain.low > -gate.tolerance):
        return GateDecision(passed.decision, [*passed.reasons, compared])
    how = "is worse beyond noise" if gain.high < 0 else f"may be worse by more than {gate.tolerance:g}"
    return GateDecision(Decision.FAIL, [f"The challenger {how} than {best}.", compared, *passed.reasons])


def _warn_of_champion(settled: GateDecision, rival: C, reference: C, metric: str) -> GateDecision:
    """Return a decision by which the champion stays, with a caveat where that is worse beyond noise."""
    if metric not in rival.resamples or rival.gains(reference)[metric].high >= 0:
        return settled
    caveat = f"What serves, version {rival.version}, is worse beyond noise than version {reference.version}."
    advice = f"`nightshift promote {reference.version}` brings version {reference.version} back."
    return GateDecision(settled.decision, [caveat, advice, *settled.reasons], caveat)


def _hold_for_person(settled: GateDecision, held: Sequence[str]) -> GateDecision:
    decision = Decision.UNDECIDED if settled.decision is Decision.PASS else settled.decision
    return GateDecision(decision, [*held, *settled.reasons], caveat=held[0])


def _find_best(challenger: C, opponents: Sequence[C], metric: str) -> C | None:
    """Return the reference of later challengers: the last opponent, unless the challenger is better beyond noise."""
    best = opponents[-1] if opponents else None
    if best and {metric} <= challenger.resamples.keys() & best.resamples.keys():
        return None if challenger.gains(best)[metric].low > 0 else best
    return best


def _name(contender: Contender) -> Opponent:
    return Opponent(version=contender.version, sha256=contender.sha256)


def _measure_gains(challenger: C, rival: C | None, reference: C | None, gate: Gate) -> Iterator[Measure]:
    for opponent, name in ((rival, "gain"), (reference, "gain_over_reference")):
        if opponent and gate.metric in opponent.resamples.keys() & challenger.resamples.keys():
            gain = challenger.gains(opponent)[gate.metric]
            yield Measure(
                name=f"{gate.metric}_{name}",
                value=gain.value,
                limit=-gate.tolerance,
                interval=(gain.low, gain.high),
            )
