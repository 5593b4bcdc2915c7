"""Whether the features that a server computes are those that the model was trained on."""

from nightshift.contracts.online import Replay
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.verdict import Decision, Measure, Verdict


def judge(replay: Replay, model: ModelPackage) -> Verdict:
    """Decide from the replay of a day through the online state; a single event that differs is one too many."""
    message = f"Of {replay.rows:,} events of {replay.day} replayed online, {replay.differing:,} differ from the offline"
    if not replay.rows:
        decision, reason = Decision.UNDECIDED, f"There are no events of {replay.day} to replay online."
    elif replay.differing:
        decision, reason = Decision.FAIL, f"{message} features, by up to {replay.largest:.3g} in {replay.worst}."
    else:
        decision, reason = Decision.PASS, f"{message} features."
    differing = Measure(name="online_differing", value=replay.differing, limit=0, higher_is_better=False)
    return Verdict(gate="skew", decision=decision, reasons=[reason], measures=[differing], subject=model.sha256)
