import numpy as np
import pandas as pd
import pytest

from components.deployment import core
from nightshift.contracts.preprocessing import Inputs
from nightshift.contracts.verdict import Decision, Measure, Opponent, Verdict
from nightshift.registry.promotion import Move, PromotionCase, PromotionDecision, VersionInfo
from nightshift.runtime.errors import UserError
from nightshift.tasks.tabular.examples import example
from nightshift_testkit import packages

INPUTS = Inputs(numeric=["amount", "count"], categorical={"channel": ["shop", "web"]})
CHAMPION = VersionInfo(1, "a" * 64, "2018-07-30")
CHALLENGER = VersionInfo(2, "b" * 64, "2018-07-31")


def drift(decision: str = "pass") -> Verdict:
    reasons, subject = ["Amounts grew."], CHALLENGER.sha256
    return Verdict(gate="drift", decision=decision, reasons=reasons, measures=[], subject=subject, advisory=True)


def verdicts(decision="pass", champion: VersionInfo | None = CHAMPION, reasons=("It is better.",)) -> list[Verdict]:
    evaluation = Verdict(
        gate="evaluation",
        decision=decision,
        reasons=list(reasons),
        measures=[Measure(name="average_precision", value=0.6), Measure(name="auc_roc", value=None)],
        subject=CHALLENGER.sha256,
        compared_with=champion and Opponent(version=champion.version, sha256=champion.sha256),
    )
    return [evaluation, drift()]


SAME = VersionInfo(7, CHALLENGER.sha256, "2018-07-31")
OTHER = VersionInfo(3, "c" * 64, "2018-07-01")
ROLLED_BACK = VersionInfo(2, CHALLENGER.sha256, "2018-07-31", rolled_back=True)
NEWER = [VersionInfo(1, "a" * 64, until) for until in ("2018-07-31", "2018-08-01", "2019-01-01")]
OLD = "Promotion needs a data window newer than the champion's: trained until 2018-07-31, version 1 until"
BETTER, DRIFT = "It is better.", "Drift: pass."
CASES = {  # challenger, champion, verdicts, and the outcome with its first reason
    "better": (CHALLENGER, CHAMPION, verdicts(), "promoted", BETTER),
    "the first": (CHALLENGER, None, verdicts(champion=None), "promoted", BETTER),
    "not better": (CHALLENGER, CHAMPION, verdicts("fail", reasons=["It is worse."]), "kept", "It is worse."),
    "the first, and not good enough": (CHALLENGER, None, verdicts("fail", None), "registered", BETTER),
    "the champion itself": (CHALLENGER, SAME, verdicts(champion=None), "kept", "Version 7 is already the champion."),
    **{
        f"of days before those of the champion's until {newer.trained_until}": (
            CHALLENGER, newer, verdicts(champion=newer), "kept", f"{OLD} {newer.trained_until}."
        )
        for newer in NEWER
    },
    "rolled back": (ROLLED_BACK, CHAMPION, verdicts(), "kept", "Version 2 was rolled back; promote it by hand."),
    "measured against another champion": (
        CHALLENGER, CHAMPION, verdicts(champion=OTHER), "kept",
        "The evaluation compared with version 3, but version 1 is the champion by now; run it again.",
    ),
    "without a champion that could be measured": (CHALLENGER, CHAMPION, verdicts(champion=None), "promoted", BETTER),
}  # fmt: skip


@pytest.mark.parametrize(("challenger", "champion", "judged", "outcome", "reason"), CASES.values(), ids=CASES)
def test_a_model_is_promoted_or_kept_for_a_reason(challenger, champion, judged, outcome, reason):
    decision = core.decide(PromotionCase(challenger, champion, judged))
    assert core.outcome(decision, champion) == outcome
    assert (decision.reasons[0], decision.reasons[-1]) == (reason, DRIFT)


def test_a_backfill_promotes_nothing_even_without_a_champion():
    for champion, outcome in ((None, "registered"), (CHAMPION, "kept")):
        decision = core.decide(PromotionCase(CHALLENGER, champion, verdicts(champion=champion), is_on_hold=True))
        assert core.outcome(decision, champion) == outcome
        assert decision.reasons == ["Runs for past days promote nothing; promote it by hand.", BETTER, DRIFT]


STEPS = {None: (Move.START, "Version 2 is released in steps."), 2: (Move.START, "Version 2 is released in steps.")}
STEPS |= {3: (Move.KEEP, "Version 3 is being released; one at a time.")}


@pytest.mark.parametrize(("in_release", "expected"), STEPS.items())
def test_where_versions_are_released_in_steps_one_release_is_under_way(in_release, expected):
    decision = core.decide(PromotionCase(CHALLENGER, CHAMPION, verdicts(), is_gradual=True, in_release=in_release))
    assert (decision.move, decision.reasons[0]) == expected
    assert core.outcome(decision, CHAMPION) == "kept"


def test_an_advisory_verdict_is_reported_and_does_not_block():
    decision = core.decide(PromotionCase(CHALLENGER, CHAMPION, [verdicts()[0], drift("fail")]))
    assert decision == PromotionDecision(Move.PROMOTE, ["It is better.", "Drift: fail."])


def test_a_verdict_about_another_model_is_refused():
    with pytest.raises(
        UserError, match="verdict of evaluation is about model bbbbbbbb, but the model to deploy is dddddddd"
    ):
        core.decide(PromotionCase(VersionInfo(2, "d" * 64, "2018-07-31"), None, verdicts()))


@pytest.mark.parametrize("judged", ["fail", "undecided"])
def test_one_gate_that_is_not_passed_keeps_the_champion_whoever_wrote_its_verdict(judged):
    evaluation = verdicts()[0]
    budget = evaluation.model_copy(update={"gate": "budget", "decision": Decision(judged), "reasons": ["It costs."]})
    decision = core.decide(PromotionCase(CHALLENGER, CHAMPION, [evaluation, budget]))
    assert decision == PromotionDecision(Move.KEEP, ["It costs."])


def test_advisory_verdicts_alone_promote_nothing():
    with pytest.raises(
        UserError, match=r"^no verdict decides about a promotion, all are advisory; run the evaluation of"
    ):
        core.decide(PromotionCase(CHALLENGER, None, [drift()]))


def test_a_version_that_is_held_for_a_person_says_how_to_take_it():
    held, advice = verdicts("undecided", reasons=["Input 'x' tells all."])
    plain = core.decide(PromotionCase(CHALLENGER, CHAMPION, [held, advice]))
    caveat = held.model_copy(update={"caveat": "Input 'x' tells all."})

    decision = core.decide(PromotionCase(CHALLENGER, CHAMPION, [caveat, advice]))

    assert (decision.move, plain.move) == (Move.KEEP, Move.KEEP)
    assert decision.reasons[0] == "Version 2 is held for a person; `nightshift promote 2` takes it as it is."
    assert "Input 'x' tells all." not in decision.reasons, "which the headline says"
    assert not any("promote" in reason for reason in plain.reasons)


def test_the_version_that_later_challengers_are_held_to_is_a_tag():
    model = packages.manifest({"mlp": b""}, INPUTS)
    judged, advice = verdicts()
    held = judged.model_copy(update={"reference": Opponent(version=1, sha256="r")})

    assert core.lineage(model, [held, advice], "average_precision")["reference"] == "r"
    assert core.lineage(model, [judged, advice], "average_precision")["reference"] == model.sha256


def test_lineage_names_data_and_judgment_and_leaves_out_what_is_not_known():
    train = {"first": "2018-07-25", "last": "2018-07-31", "rows": 10, "open_days": 7, "positives": 1}
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
        "reference": packages.manifest({"mlp": b""}, INPUTS, made_from).sha256,
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
    nullable = INPUTS.model_copy(update={"nullable": ["amount"]})
    assert example(nullable, reference) == {"amount": None, "count": 3.0, "channel": "shop"}
    with pytest.raises(UserError, match="no row without a missing value"):
        example(INPUTS, reference.tail(1))
