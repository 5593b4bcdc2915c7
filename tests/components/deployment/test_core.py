import numpy as np
import pandas as pd
import pytest

from components.deployment import core
from components.deployment.core import Candidate
from nightshift.contracts.preprocessing import Inputs
from nightshift.contracts.verdict import Decision, Measure, Opponent, Verdict
from nightshift.errors import UserError
from nightshift.tasks.tabular.examples import example
from tests import packages

INPUTS = Inputs(numeric=["amount", "count"], categorical={"channel": ["shop", "web"]})
CHAMPION = Candidate(1, "a" * 64, "2018-07-30")
CHALLENGER = Candidate(2, "b" * 64, "2018-07-31")


def drift(decision: str = "pass") -> Verdict:
    reasons, subject = ["Amounts grew."], CHALLENGER.sha256
    return Verdict(gate="drift", decision=decision, reasons=reasons, measures=[], subject=subject, advisory=True)


def verdicts(decision="pass", champion: Candidate | None = CHAMPION, reasons=("It is better.",)) -> list[Verdict]:
    evaluation = Verdict(
        gate="evaluation",
        decision=decision,
        reasons=list(reasons),
        measures=[Measure(name="average_precision", value=0.6), Measure(name="auc_roc", value=None)],
        subject=CHALLENGER.sha256,
        compared_with=champion and Opponent(version=champion.version, sha256=champion.sha256),
    )
    return [evaluation, drift()]


def test_a_better_model_is_promoted_for_the_reasons_of_its_verdicts():
    decision = core.decide(CHALLENGER, CHAMPION, verdicts())
    assert decision == core.Decision("promoted", ["It is better.", "Drift: pass."])


def test_the_first_model_is_promoted_when_its_verdict_says_so():
    assert core.decide(CHALLENGER, None, verdicts(champion=None)).outcome == "promoted"


def test_a_model_that_is_not_better_leaves_the_champion():
    decision = core.decide(CHALLENGER, CHAMPION, verdicts("fail", reasons=["It is worse."]))
    assert decision == core.Decision("kept", ["It is worse.", "Drift: pass."])


def test_a_model_that_may_not_be_promoted_is_only_registered_when_there_is_no_champion():
    assert core.decide(CHALLENGER, None, verdicts("fail", None)).outcome == "registered"


def test_a_backfill_promotes_nothing_even_without_a_champion():
    promoted = core.decide(CHALLENGER, None, verdicts(champion=None))
    assert core.unpromoted(promoted, has_champion=False).outcome == "registered"
    assert core.unpromoted(promoted, has_champion=True).outcome == "kept"
    assert core.unpromoted(promoted, has_champion=True).reasons[0].startswith("Runs for past days promote nothing")


def test_the_champion_itself_is_kept():
    champion = Candidate(7, CHALLENGER.sha256, "2018-07-31")
    decision = core.decide(CHALLENGER, champion, verdicts(champion=None))
    assert decision == core.Decision("kept", ["Version 7 is already the champion.", "Drift: pass."])


@pytest.mark.parametrize("trained_until", ["2018-07-31", "2018-08-01", "2019-01-01"])
def test_a_backfill_is_not_promoted_over_a_champion_of_the_same_or_newer_data(trained_until):
    champion = Candidate(1, "a" * 64, trained_until)
    decision = core.decide(CHALLENGER, champion, verdicts(champion=champion))
    assert decision.outcome == "kept"
    assert decision.reasons[0] == (
        "Promotion needs a data window newer than the champion's: "
        f"trained until 2018-07-31, version 1 until {trained_until}."
    )


def test_a_version_that_somebody_rolled_back_does_not_return_by_itself():
    challenger = Candidate(2, CHALLENGER.sha256, "2018-07-31", rolled_back=True)
    decision = core.decide(challenger, CHAMPION, verdicts())
    assert decision.outcome == "kept"
    assert decision.reasons[0] == "Version 2 was rolled back; promote it by hand."


def test_a_verdict_against_another_champion_promotes_nothing():
    decision = core.decide(CHALLENGER, CHAMPION, verdicts(champion=Candidate(3, "c" * 64, "2018-07-01")))
    assert decision.outcome == "kept"
    assert "evaluation compared with version 3, but version 1 is the champion by now" in decision.reasons[0]


def test_a_champion_that_could_not_be_measured_does_not_block_its_successor():
    assert core.decide(CHALLENGER, CHAMPION, verdicts(champion=None)).outcome == "promoted"


def test_an_advisory_verdict_is_reported_and_does_not_block():
    decision = core.decide(CHALLENGER, CHAMPION, [verdicts()[0], drift("fail")])
    assert decision == core.Decision("promoted", ["It is better.", "Drift: fail."])


def test_a_verdict_about_another_model_is_refused():
    with pytest.raises(
        UserError, match="verdict of evaluation is about model bbbbbbbb, but the model to deploy is dddddddd"
    ):
        core.decide(Candidate(2, "d" * 64, "2018-07-31"), None, verdicts())


@pytest.mark.parametrize("decision", ["fail", "undecided"])
def test_one_gate_that_is_not_passed_keeps_the_champion_whoever_wrote_its_verdict(decision):
    evaluation = verdicts()[0]
    budget = evaluation.model_copy(update={"gate": "budget", "decision": Decision(decision), "reasons": ["It costs."]})
    found = core.decide(CHALLENGER, CHAMPION, [evaluation, budget])
    assert found == core.Decision("kept", ["It costs."])


def test_advisory_verdicts_alone_promote_nothing():
    with pytest.raises(
        UserError, match=r"^no verdict decides about a promotion, all are advisory; run the evaluation of"
    ):
        core.decide(CHALLENGER, None, [drift()])


def test_lineage_names_data_and_judgement_and_leaves_out_what_is_not_known():
    train = {"first": "2018-07-25", "last": "2018-07-31", "rows": 10, "positives": 1}
    made_from = packages.lineage(train=train, events_sha256="e", features_sha256="f")
    tags = core.lineage(packages.manifest({"mlp": b""}, INPUTS, made_from), verdicts(), "average_precision")
    assert tags == {
        "candidate": "mlp",
        "train_first": "2018-07-25",
        "train_last": "2018-07-31",
        "train_rows": "10",
        "train_positives": "1",
        "events_sha256": "e",
        "features_sha256": "f",
        "device": "cpu",
        "seed": "0",
        "promise": "average_precision",
        "average_precision": "0.6",
        "evaluation": "pass",
        "drift": "pass",
    }


def test_lineage_holds_the_metric_that_the_version_is_held_to_whatever_it_is_called():
    measures = [Measure(name="poisson_deviance", value=1.1, limit=2.0, higher_is_better=False)]
    judged = [verdicts()[0].model_copy(update={"measures": measures})]
    assert (
        core.lineage(packages.manifest({"mlp": b""}, INPUTS), judged, "poisson_deviance")["poisson_deviance"] == "1.1"
    )


def test_the_example_is_the_most_suspicious_event_without_a_missing_value():
    reference = pd.DataFrame(
        {
            "amount": [1.0, 123.456789, np.nan],
            "count": [1.0, 2.0, 3.0],
            "channel": ["shop", "web", "shop"],
            "score": [0.1, 0.8, 0.9],
        }
    )
    assert example(INPUTS, reference) == {"amount": 123.457, "count": 2.0, "channel": "web"}
    with pytest.raises(UserError, match="no row without a missing value"):
        example(INPUTS, reference.tail(1))
