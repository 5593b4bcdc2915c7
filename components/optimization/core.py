"""Judges whether a graph variant may replace the original: nightly by accuracy, on request also by speed."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from components.optimization.forms import FUSED, Form
from nightshift.contracts.optimization import ORIGINAL, Attempt, EngineVariant, Latency, Optimization
from nightshift.contracts.package import REASONS, REFERENCE, File, Format, ModelPackage, Optimized
from nightshift.contracts.section import Estimate
from nightshift.contracts.verdict import Decision, Measure, Verdict
from nightshift.models.graph import CPU
from nightshift.models.tensors import Tensors, row_count, split_rows, take_rows
from nightshift.models.weights import total_size
from nightshift.stats.bootstrap import BootstrapInterval
from nightshift.tasks.base.optimization import OptimizationRows

Floats = npt.NDArray[np.floating[Any]]
Scores = npt.NDArray[np.float32]
Clock = Callable[[], float]

TOLERANCE_SHARE = 0.1  # share of the tolerance for a newer model: a variant of the same model deserves less
MAX_FLIPPED = 0.001  # share of the rows whose decision may change
MAX_ROW_TIME = 0.8  # limit of the median time per row, relative to the original; less gain is not worth it
MAX_BATCH_TIME = 1.05  # limit of the median time of many rows, relative to the original
ROUNDS = 300
MANY_ROUNDS = 30
# a form's seconds for turns with one row, and for turns with many; large networks get fewer rounds, but at least a few
SECONDS, MIN_ROUNDS = 10.0, 5


@dataclass(frozen=True)
class Effect:
    """The effect of a graph variant on the scores.

    Attributes:
        loss: loss of the metric, with its paired 95 % interval; None if undefined.
        flipped: share of the rows whose decision changes; None without scores.
    """

    loss: Estimate | None
    flipped: float | None


NONE = Effect(None, None)
UNCHANGED = "It is the trained graph."


def judge_by_loss(original: Form, form: Form, rows: OptimizationRows) -> list[Attempt]:
    """Judge a variant by its loss alone; the result depends on the graph and the rows, not on the machine."""
    scored = [_score(graph, rows, rows.inputs) for graph in (original, form)]
    effects = effects_of(rows, {graph.name: scores for graph, scores in scored if scores is not None})
    return [_attempt(graph, {}, effects.get(graph.name, NONE), rows) for graph, _ in scored]


def attempts(forms: Sequence[Form], rows: OptimizationRows, clock: Clock = time.perf_counter) -> list[Attempt]:
    """Measure forms of a graph, the original first, and judge each.

    Only the original and forms that are clearly faster score all rows: that takes minutes of a large network, and
    nothing depends on the others.
    """
    able = [_score(form, rows, take_rows(rows.inputs, slice(rows.batch_size)))[0] for form in forms]
    times = latencies({form.name: partial(rows.compute, form.graph) for form in able if form.graph}, rows, clock)
    worth = {form.name for form in able if form.graph and (form.name == ORIGINAL or _is_faster(times, form))}
    sound = [_score(form, rows, rows.inputs) if form.name in worth else (form, None) for form in able]
    effects = effects_of(rows, {form.name: scores for form, scores in sound if scores is not None})
    return [_attempt(form, times, effects.get(form.name, NONE), rows) for form, _ in sound]


def _score(form: Form, rows: OptimizationRows, inputs: Tensors) -> tuple[Form, Scores | None]:
    """Return a variant and its scores, computed in batches.

    It loses its graph where that has no score for some row.
    """
    if form.graph is None:
        return form, None
    try:
        scores = np.concatenate([rows.compute(form.graph, batch) for batch in split_rows(inputs, rows.batch_size)])
    except Exception as error:  # any failure of a variant leaves the others unaffected
        if form.name == ORIGINAL:
            raise
        message = f"It cannot score the rows: {' '.join(str(error).split())[:200]}"
        return replace(form, graph=None, missing=message), None
    if form.name == ORIGINAL or np.isfinite(scores).all():
        return form, scores
    return replace(form, graph=None, missing="It has no finite score for some rows."), None


def latencies(
    running: Mapping[str, Callable[[Tensors], Scores]], rows: OptimizationRows, clock: Clock = time.perf_counter
) -> dict[str, list[Latency]]:
    """Return the median time of calls with one row and with many; variants alternate, so that noise affects all."""
    latencies_by_form: dict[str, list[Latency]] = {name: [] for name in running}
    one, repeated = slice(1), np.arange(rows.batch_size) % row_count(rows.inputs)
    for inputs, rounds in ((take_rows(rows.inputs, one), ROUNDS), (take_rows(rows.inputs, repeated), MANY_ROUNDS)):
        seconds: dict[str, list[float]] = {name: [] for name in running}
        for _ in _rounds(rounds, SECONDS * len(running), clock):
            for name, score in running.items():
                started = clock()
                score(inputs)
                seconds[name].append(clock() - started)
        for name, times in seconds.items():
            latencies_by_form[name].append(Latency(rows=row_count(inputs), median_ms=1000 * float(np.median(times))))
    return latencies_by_form


def _rounds(most: int, seconds: float, clock: Clock) -> Iterator[int]:
    """Yield rounds until the count or the time limit is reached, but always a minimum."""
    started = clock()
    for number in range(most):
        if number >= MIN_ROUNDS and clock() - started > seconds:
            return
        yield number


def effects_of(rows: OptimizationRows, scores: Mapping[str, Scores]) -> dict[str, Effect]:
    """Return the effect of each variant on the scores of the same rows."""
    flagged = {name: rows.decide(form_scores) for name, form_scores in scores.items()}
    flipped = {name: float(np.mean(decisions != flagged[ORIGINAL])) for name, decisions in flagged.items()}
    losses = _losses(rows, scores) if rows.is_decidable else {}
    return {name: Effect(losses.get(name), share) for name, share in flipped.items()}


def _losses(rows: OptimizationRows, scores: Mapping[str, Scores]) -> dict[str, Estimate]:
    """Return the loss of the metric by variant, with its paired 95 % interval."""
    original = scores[ORIGINAL]
    others = {name: form_scores for name, form_scores in scores.items() if not np.array_equal(form_scores, original)}
    drawn = {name: rows.resample(scores[name]) for name in [ORIGINAL, *others] if others}
    exact = {name: rows.quality(scores[name]) for name in drawn}
    losses = {name: Estimate(value=0.0, low=0.0, high=0.0) for name in scores}
    for name in others:
        sure = BootstrapInterval.from_resamples(drawn[ORIGINAL] - drawn[name])
        losses[name] = Estimate(value=exact[ORIGINAL] - exact[name], low=sure.low, high=sure.high)
    return losses


def _attempt(form: Form, times: Mapping[str, list[Latency]], effect: Effect, rows: OptimizationRows) -> Attempt:
    accepted, reason = _judge(form, times, effect, rows)
    return Attempt(
        name=form.name,
        provider=form.provider,
        size=total_size(form.content) if form.graph else None,
        loss=effect.loss,
        flipped=effect.flipped,
        latencies=times.get(form.name, []),
        accepted=accepted,
        reason=reason,
    )


def _judge(form: Form, times: Mapping[str, list[Latency]], effect: Effect, rows: OptimizationRows) -> tuple[bool, str]:
    """Return whether a variant may replace the original, and why; also by speed if there are times."""
    if form.graph is None:
        return False, form.missing
    if form.name == ORIGINAL:
        return True, UNCHANGED
    if not rows.is_decidable:
        return False, "The validation days hold one class only, so its loss cannot be measured."
    speed = f"{_speed(times, form, rows)}; " if times else ""
    if times and not _is_faster(times, form):
        return False, f"{speed}at most {MAX_ROW_TIME:.0%} and {MAX_BATCH_TIME:.0%} are worth another graph."
    if harm := _harm(effect, rows):
        return False, harm
    if form.provider != CPU:
        return False, f"{speed}measured only, the server calls graphs on the CPU."
    assert effect.loss is not None
    return True, f"{speed}it loses at most {max(effect.loss.high, 0):.2g} of {rows.metric}."


def _harm(effect: Effect, rows: OptimizationRows) -> str:
    """Return why a variant's effect exceeds the limits; empty if it does not."""
    assert effect.loss is not None
    assert effect.flipped is not None
    if effect.loss.high > rows.limit:
        return f"It may lose {effect.loss.high:.2g} of {rows.metric}, more than {rows.limit:g}."
    if effect.flipped > MAX_FLIPPED:
        return f"It decides otherwise on {effect.flipped:.2%} of the rows, more than {MAX_FLIPPED:.1%}."
    return ""


def _speed(times: Mapping[str, list[Latency]], form: Form, rows: OptimizationRows) -> str:
    one, batch = _shares(times, form)
    return f"A row takes {one:.0%} of the original's time, {rows.batch_size:,} rows {batch:.0%}"


def _shares(times: Mapping[str, list[Latency]], form: Form) -> tuple[float, float]:
    """Return a variant's times for one row and for many, relative to the original's."""
    one, batch = (a.median_ms / b.median_ms for a, b in zip(times[form.name], times[ORIGINAL], strict=True))
    return one, batch


def _is_faster(times: Mapping[str, list[Latency]], form: Form) -> bool:
    one, batch = _shares(times, form)
    return one <= MAX_ROW_TIME and batch <= MAX_BATCH_TIME


def best(tried: Sequence[Attempt]) -> Attempt:
    """Return the accepted attempt that is fastest with one row: the original where it is the only one."""
    return min((attempt for attempt in tried if attempt.accepted), key=lambda attempt: attempt.latencies[0].median_ms)


def keep_original(model: ModelPackage) -> Optimization:
    """Return the result for a model whose graph is served unchanged."""
    size = sum(file.size for file in model.graph_files(model.selected))
    attempt = Attempt(
        name=ORIGINAL, provider=CPU, size=size, loss=None, flipped=None, latencies=[], accepted=True, reason=UNCHANGED
    )
    return Optimization(
        candidate=model.selected,
        original_sha256=model.sha256,
        sha256=model.sha256,
        attempts=[attempt],
        chosen=ORIGINAL,
    )


def summarize(model: ModelPackage, chosen: Form, tried: Sequence[Attempt], rows: OptimizationRows) -> Optimization:
    """Return the result of judging a model's graph variants."""
    changed = model if chosen.name == ORIGINAL else replace_graph(model, chosen)
    return Optimization(
        candidate=model.selected,
        original_sha256=model.sha256,
        sha256=changed.sha256,
        rows=row_count(rows.inputs),
        metric=rows.metric,
        limit=rows.limit,
        attempts=list(tried),
        chosen=chosen.name,
    )


def choose_engine_variant(variants: Sequence[EngineVariant]) -> EngineVariant | None:
    """Return the smallest variant that passes its gate; None where there is none."""
    passed = [variant for variant in variants if variant.decision is Decision.PASS]
    return min(passed, key=lambda variant: variant.size or 0, default=None)


def add_engine_variants(result: Optimization, changed: ModelPackage, variants: Sequence[EngineVariant]) -> Optimization:
    """Return the result with the GGUF variants, and the identity of the resulting model."""
    chosen = choose_engine_variant(variants)
    return result.model_copy(
        update={
            "sha256": changed.sha256,
            "engine_variants": list(variants),
            "engine_variant": chosen and chosen.name,
        }
    )


def add_engine_file(model: ModelPackage, file: File) -> ModelPackage:
    """Return a package's manifest with a GGUF file for engines."""
    return model.model_copy(update={"files": [*model.files, file], "engine_file": file.name})


def add_answer_files(model: ModelPackage, files: Sequence[File]) -> ModelPackage:
    """Return a package's manifest with the files by which requests are answered, in place of those it had."""
    kept = [file for file in model.files if file.name not in {*model.answer_files, *(file.name for file in files)}]
    names = [file.name for file in files]
    return model.model_copy(update={"files": [*kept, *files], "answer_files": names})


def _explain_engine_file(result: Optimization) -> list[str]:
    """Return which GGUF variant engines get and why not a smaller one; nothing if none is configured."""
    if not result.engine_variants:
        return []
    refused = [
        f"Not {variant.name} ({variant.decision}): {' '.join(variant.reasons)}"
        for variant in result.engine_variants
        if variant.decision is not Decision.PASS
    ]
    if result.engine_variant is None:
        return ["There is no file for engines that generate text.", *refused]
    return [f"Engines generate text by the weights in {result.engine_variant}.", *refused]


def verdict(result: Optimization) -> Verdict:
    """Return the verdict; it blocks nothing, since the original may always be served."""
    *_, last = result.attempts
    chosen = next(attempt for attempt in result.attempts if attempt.name == result.chosen)
    kept = f"The graph stays as it was trained, and not {last.name!r}: {last.reason}"
    if last.name == ORIGINAL:
        kept = (
            "The graph is served as it was trained. To measure whether another form is faster, run nightshift optimize."
        )
    replacement_reason = f"The graph's form {chosen.name!r} takes the original's place: {chosen.reason}"
    is_undecided = last.name != ORIGINAL and all(attempt.loss is None for attempt in result.attempts)
    return Verdict(
        gate="optimization",
        decision=Decision.UNDECIDED if is_undecided else Decision.PASS,
        reasons=[kept if chosen.name == ORIGINAL else replacement_reason, *_explain_engine_file(result)],
        measures=[_loss(result, last)] if last.name != ORIGINAL else [],
        subject=result.sha256,
        advisory=True,
    )


def _loss(result: Optimization, attempt: Attempt) -> Measure:
    if attempt.loss is None:
        return Measure(name="loss", value=None, limit=result.limit)
    interval = (attempt.loss.low, attempt.loss.high)
    return Measure(name="loss", value=attempt.loss.value, limit=result.limit, interval=interval, higher_is_better=False)


def replace_graph(model: ModelPackage, form: Form) -> ModelPackage:
    """Return a package's manifest with a variant as the selected candidate's graph, and the sample to be written."""
    name = f"{model.selected}.{form.name.replace(' ', '-')}.onnx"
    chosen = model.candidates[model.selected].model_copy(update={"file": name})
    made_from = Optimized(form=form.name, original_sha256=model.sha256)
    # the margin of rounded weights is another than the file of reasons is of
    left_out = (REFERENCE,) if form.name == FUSED else (REFERENCE, REASONS)
    return model.model_copy(
        update={
            "files": [
                *(file for file in model.files if file.name not in left_out),
                File.describe(name, form.content, Format.ONNX),
            ],
            "candidates": model.candidates | {model.selected: chosen},
            "lineage": model.lineage.model_copy(update={"optimized": made_from}),
        }
    )
