"""Loss, speed, and which form takes the original's place."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from components.optimization import core
from components.optimization.core import Effect
from components.optimization.forms import Form
from nightshift.contracts.optimization import ORIGINAL, Attempt, EngineVariant, Latency, Optimization
from nightshift.contracts.package import REASONS, File, Format
from nightshift.contracts.section import Estimate
from nightshift.contracts.verdict import Decision, Measure
from nightshift.models.tensors import Tensors, by_name, row_count
from nightshift.tasks.tabular.optimization import TableOptimizationRows
from nightshift_testkit import packages

RANDOM = np.random.default_rng(0)
LABELS = (RANDOM.random(2000) < 0.1).astype(np.int8)
SCORES = np.clip(0.3 * LABELS + RANDOM.normal(0.4, 0.15, 2000), 0, 1).astype(np.float32)
ROWS = TableOptimizationRows(by_name(SCORES[:, None]), 0.002, LABELS, threshold=0.5)


class Column:
    """A graph that scores by a function of its first input."""

    def __init__(self, change=lambda values: values) -> None:
        self.change = change

    def score(self, inputs: Tensors) -> np.ndarray:
        return self.change(inputs["inputs"][:, 0]).astype(np.float32)


def form(name: str, change=lambda values: values, **fields) -> Form:
    return Form(name, Column(change), b"graph", **fields)


def effect(original: np.ndarray, scores: np.ndarray) -> Effect:
    return core.effects_of(ROWS, {ORIGINAL: original, "int8": scores})["int8"]


def times(one: float, many: float) -> list[Latency]:
    return [Latency(rows=1, median_ms=one), Latency(rows=1024, median_ms=many)]


def judged(one: float = 0.5, many: float = 1.0, high: float = 0.0, flipped: float = 0.0, **fields) -> tuple[bool, str]:
    effect = Effect(Estimate(value=high / 2, low=0, high=high), flipped)
    return core._judge(form("int8", **fields), {ORIGINAL: times(2, 2), "int8": times(2 * one, 2 * many)}, effect, ROWS)


def test_scores_that_are_the_same_lose_nothing() -> None:
    same = effect(SCORES, SCORES.copy())
    assert same == Effect(Estimate(value=0, low=0, high=0), 0.0)


def test_a_score_at_the_threshold_is_flagged() -> None:
    assert ROWS.decide(np.float32([0.49, 0.5, 0.51])).tolist() == [False, True, True]


def test_the_loss_is_that_of_average_precision_within_its_paired_interval() -> None:
    worse = np.where(RANDOM.random(2000) < 0.3, RANDOM.random(2000), SCORES).astype(np.float32)
    lost = effect(SCORES, worse)
    assert 0 < lost.loss.low < lost.loss.value < lost.loss.high
    assert effect(worse, SCORES).loss.value == pytest.approx(-lost.loss.value)
    assert lost.flipped == pytest.approx(np.mean((worse >= 0.5) != (SCORES >= 0.5)))
    # pairing: what is nearly the same is known to be so, however uncertain the metric itself is
    near = effect(SCORES, (SCORES + RANDOM.normal(0, 1e-4, 2000)).astype(np.float32))
    assert near.loss.high - near.loss.low < 0.1 * (lost.loss.high - lost.loss.low)


@pytest.mark.parametrize(
    ("fields", "accepted", "says"),
    [
        ({}, True, "A row takes 50% of the original's time"),
        ({"high": 0.002, "flipped": 0.001, "one": 0.8, "many": 1.05}, True, "; it loses at most 0.002 of average"),
        ({}, True, "; it loses at most 0 of average precision."),
        ({"high": 0.0021}, False, "It may lose 0.0021 of average precision"),
        ({"flipped": 0.002}, False, "It decides otherwise on 0.20% of the rows"),
        ({"one": 0.81}, False, "at most 80% and 105% are worth another graph"),
        ({"many": 1.06}, False, "at most 80% and 105% are worth another graph"),
        ({"provider": "CUDAExecutionProvider"}, False, "measured only, the server calls graphs on the CPU"),
    ],
)
def test_a_form_is_accepted_when_it_is_as_accurate_and_clearly_faster(fields, accepted, says) -> None:
    is_accepted, reason = judged(**fields)
    assert is_accepted is accepted
    assert says in reason


def variant(name: str, size: int, decision: Decision = Decision.PASS) -> EngineVariant:
    return EngineVariant(name=name, file=f"{name}.gguf", size=size, decision=decision, reasons=["It is so."])


def test_of_the_files_for_engines_the_smallest_that_passes_is_served_and_others_say_why_not() -> None:
    variants = [variant("F16", 16), variant("Q8_0", 8), variant("Q4_0", 4, Decision.FAIL)]
    result = core.add_engine_variants(optimization([attempt(ORIGINAL, 1.0)]), packages.manifest({"a": b""}), variants)
    assert result.engine_variant == "Q8_0"
    assert core.verdict(result).reasons[1:] == [
        "Engines generate text by the weights in Q8_0.",
        "Not Q4_0 (fail): It is so.",
    ]


def test_without_a_file_that_passes_engines_have_none_and_the_reasons_say_so() -> None:
    variants = [EngineVariant.missing("Q8_0", "llama.cpp is missing.")]
    result = core.add_engine_variants(optimization([attempt(ORIGINAL, 1.0)]), packages.manifest({"a": b""}), variants)
    assert result.engine_variant is None
    assert core.verdict(result).reasons[1:] == [
        "There is no file for engines that generate text.",
        "Not Q8_0 (undecided): llama.cpp is missing.",
    ]


def test_with_one_class_only_the_original_stays() -> None:
    none = TableOptimizationRows(ROWS.inputs, 0.002, np.zeros_like(LABELS), 0.5)
    tried = core.attempts([form(ORIGINAL), form("int8")], none)
    assert [attempt.accepted for attempt in tried] == [True, False]
    assert tried[1].reason == "The validation days hold one class only, so its loss cannot be measured."
    verdict = core.verdict(optimization(tried))
    assert verdict.decision is Decision.UNDECIDED
    assert verdict.measures[0] == Measure(name="loss", value=None, limit=0.002)


def test_the_forms_take_turns_and_their_medians_are_told() -> None:
    """A clock that one form moves by 1, the other by 3, and that noise moves by 1,000 now and then."""
    now, scored, calls = [0.0], [], itertools.count()

    def running(name: str, seconds: float):
        def score(inputs: Tensors) -> np.ndarray:
            scored.append((name, row_count(inputs)))
            now[0] += seconds + (1000 if next(calls) % 7 == 0 else 0)
            return inputs["inputs"][:, 0]

        return score

    latencies = core.latencies({"a": running("a", 0.001), "b": running("b", 0.003)}, ROWS, lambda: now[0])
    assert [latency.rows for latency in latencies["a"]] == [1, ROWS.batch_size]
    assert [latency.median_ms for latency in latencies["a"]] == pytest.approx([1, 1])
    assert [latency.median_ms for latency in latencies["b"]] == pytest.approx([3, 3])
    assert [name for name, _ in scored[:4]] == ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    ("seconds", "rounds"), [(0.001, (core.ROUNDS, core.MANY_ROUNDS)), (0.5, (20, 20)), (100, (core.MIN_ROUNDS,) * 2)]
)
def test_slow_forms_have_fewer_rounds(seconds: float, rounds: tuple[int, int]) -> None:
    now, batches = [0.0], []

    def score(inputs: Tensors) -> np.ndarray:
        batches.append(row_count(inputs))
        now[0] += seconds
        return inputs["inputs"][:, 0]

    core.latencies({"a": score, "b": score}, ROWS, lambda: now[0])
    assert batches.count(1) == pytest.approx(2 * rounds[0], abs=2)
    assert batches.count(ROWS.batch_size) == pytest.approx(2 * rounds[1], abs=2)


def timed(**seconds: float) -> tuple[list[Form], Callable[[], float], dict[str, int]]:
    """Forms by the seconds that each takes for a call, with their clock and the rows that each has scored."""
    now, scored = [0.0], dict.fromkeys(seconds, 0)

    def change(name: str):
        def score(values: np.ndarray) -> np.ndarray:
            scored[name] += len(values)
            now[0] += seconds[name]
            return values

        return score

    return [form(name, change(name)) for name in seconds], lambda: now[0], scored


def test_a_form_that_is_not_clearly_faster_is_not_judged_by_all_rows() -> None:
    forms, clock, scored = timed(original=100, slow=90, fast=50)
    tried = core.attempts(forms, ROWS, clock)
    assert [attempt.accepted for attempt in tried] == [True, False, True]
    assert [attempt.loss is None for attempt in tried] == [False, True, False]
    assert tried[1].reason.startswith("A row takes 90% of the original's time")
    assert scored["fast"] - scored["slow"] == len(LABELS)


def test_a_form_without_a_score_for_a_late_row_is_left_out() -> None:
    forms, clock, _ = timed(original=100, fast=50)
    late = np.where(np.arange(len(SCORES)) == len(SCORES) - 1, 2, SCORES)[:, None]
    spoiled = form(
        "spoiled", lambda values: np.where(values > 1, np.nan, forms[1].graph.score(by_name(values[:, None])))
    )
    tried = core.attempts([forms[0], spoiled], TableOptimizationRows(by_name(late), 0.002, LABELS, 0.5), clock)
    assert tried[1].reason == "It has no finite score for some rows."
    assert tried[1].loss is None


def attempt(name: str, one: float, accepted: bool = True, many: float = 1.0) -> Attempt:
    loss = Estimate(value=0.001, low=0, high=0.002)
    about = {"provider": "CPUExecutionProvider", "size": 1, "loss": loss, "flipped": 0.0, "reason": "It is."}
    return Attempt(name=name, latencies=times(one, many), accepted=accepted, **about)


def optimization(tried: list[Attempt]) -> Optimization:
    identity = {"original_sha256": "a" * 64, "sha256": "b" * 64, "rows": 10, "limit": 0.002, "candidate": "mlp"}
    return Optimization(attempts=tried, chosen=core.best(tried).name, **identity)


def test_the_fastest_accepted_form_is_the_one_to_serve() -> None:
    tried = [attempt(ORIGINAL, 1.0), attempt("a", 0.7, many=0.9), attempt("b", 0.5), attempt("c", 0.1, accepted=False)]
    assert core.best(tried).name == "b"
    verdict = core.verdict(optimization([tried[0], tried[2]]))
    assert (verdict.gate, verdict.decision, verdict.advisory) == ("optimization", Decision.PASS, True)
    assert verdict.subject == "b" * 64
    assert verdict.measures == [
        Measure(name="loss", value=0.001, limit=0.002, interval=(0, 0.002), higher_is_better=False)
    ]
    assert verdict.reasons == ["The graph's form 'b' takes the original's place: It is."]
    kept = core.verdict(optimization([attempt(ORIGINAL, 1.0), attempt("a", 0.1, accepted=False)]))
    assert kept.reasons == ["The graph stays as it was trained, and not 'a': It is."]


@pytest.mark.parametrize(
    ("change", "accepted", "reason"),
    [
        (lambda values: values + 1e-6, True, "it loses at most "),
        (lambda values: 1 - values, False, "It may lose 0."),
        (lambda values: np.full_like(values, np.nan), False, "It has no finite score for some rows."),
    ],
    ids=["as accurate", "worse", "no score"],
)
def test_a_night_judges_the_form_of_the_config_by_what_it_loses_and_never_by_time(change, accepted, reason) -> None:
    original, other = core.judge_by_loss(form(ORIGINAL), form("graph", change), ROWS)
    assert (original.accepted, other.accepted) == (True, accepted)
    assert other.reason.startswith(reason)
    assert original.latencies == other.latencies == []


def test_a_graph_that_stays_as_it_was_trained_needs_no_rows() -> None:
    model = packages.manifest({"mlp": b"original", "trees": b"others"})
    outcome = core.keep_original(model)
    assert (outcome.chosen, outcome.sha256, outcome.rows, outcome.metric) == (ORIGINAL, model.sha256, 0, None)
    verdict = core.verdict(outcome)
    assert (verdict.decision, verdict.measures) == (Decision.PASS, [])
    assert "run nightshift optimize" in verdict.reasons[0]


def test_a_package_with_another_form_has_another_identity_and_says_what_it_was() -> None:
    model = packages.manifest({"mlp": b"original", "trees": b"others"})
    replaced = core.replace_graph(model, form("int8 static"))
    assert replaced.graph("mlp").name == "mlp.int8-static.onnx"
    assert replaced.graph("mlp").size == len(b"graph")
    assert replaced.graph("trees") == model.graph("trees")
    assert replaced.sha256 != model.sha256
    assert replaced.lineage.optimized.original_sha256 == model.sha256


@pytest.mark.parametrize(("name", "kept"), [("graph", True), ("int8 dynamic", False), ("int8 static", False)])
def test_reasons_stay_with_the_weights_that_they_explain(name: str, kept: bool) -> None:
    model = packages.manifest({"mlp": b"original"})
    reasons = File.describe(REASONS, b"", Format.SAFETENSORS)
    replaced = core.replace_graph(model.model_copy(update={"files": [*model.files, reasons]}), form(name))
    assert replaced.reasons == (reasons if kept else None)


def test_a_form_without_a_score_for_some_row_is_left_out_and_stops_nothing() -> None:
    def fails(_: np.ndarray) -> np.ndarray:
        raise RuntimeError("no kernel")

    tried = core.attempts(
        [
            form(ORIGINAL),
            form("infinite", lambda values: np.full_like(values, np.inf)),
            form("other", fails),
            Form("int4", None, missing="It could not be made."),
        ],
        ROWS,
    )
    assert [attempt.accepted for attempt in tried] == [True, False, False, False]
    assert [attempt.size for attempt in tried] == [len(b"graph"), None, None, None]
    assert [attempt.flipped for attempt in tried] == [0, None, None, None]
    assert tried[0].reason == "It is the trained graph."
    assert tried[3].reason == "It could not be made."
    assert tried[1].reason == "It has no finite score for some rows."
    assert tried[2].reason == "It cannot score the rows: no kernel"
    assert core.best(tried).name == ORIGINAL
