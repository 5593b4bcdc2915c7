"""The gate of pairs, and what is written of a model: findings, retrieval, subgroups and shortcuts."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nightshift.contracts import package, tables
from nightshift.contracts.package import DecisionRule
from nightshift.contracts.section import Estimate, Pictures
from nightshift.contracts.verdict import Decision
from nightshift.data.splits import Days
from nightshift.items import tokens
from nightshift.items.labels import encode
from nightshift.items.tokens import Tokenizer
from nightshift.tasks.base.evaluation import EvaluationReport
from nightshift.tasks.classification.judging import LabeledItems
from nightshift_image_text.contracts.evaluation import PairEvaluation
from nightshift_image_text.preprocessing import ImageTextPreprocessing
from nightshift_image_text.retrieval import Embeddings, Pairs
from nightshift_image_text.task import evaluation, judging, shortcuts, subgroups
from nightshift_image_text.task.measuring import PairAnswers
from nightshift_image_text.task.nearest import ReportTexts
from nightshift_image_text.task.subgroups import JudgedPairs
from nightshift_testkit import packages
from nightshift_testkit.pairs import PairShape, build_pair_graph

CLASSES = ["nodule", "effusion", "fracture"]
COUNT = 240
RANDOM = np.random.default_rng(0)
LABELS = RANDOM.random((COUNT, 3)) < [0.5, 0.3, 0.4]
GROUPS = np.arange(COUNT) // 2
AXES = np.eye(COUNT, dtype=np.float32)
ROWS = pd.DataFrame({"scanner": np.where(GROUPS % 3 == 0, "old", "new"), "site": "north"})
OLD = (ROWS["scanner"] == "old").to_numpy()
KNOWN = LabeledItems(LABELS, GROUPS, CLASSES)
PAIRS = Pairs(np.arange(COUNT), np.arange(COUNT), GROUPS)
MODEL = packages.manifest({"clip": b"a"}, decision=DecisionRule(threshold=None, thresholds=[0.5] * 3))
NOBODY = "There was no champion to compare with."
DAY = "2024-03-10"


def answer(found: np.ndarray | None = None, sure: float = 0.9) -> PairAnswers:
    """What a model says that is right about findings, and whose images find the reports of some rows, or of all."""
    images = AXES if found is None else np.where(found[:, None], AXES, np.roll(AXES, 1, axis=0))
    scores = np.where(LABELS, sure, 1 - sure).astype(np.float32)
    return PairAnswers(scores, Embeddings(images, AXES))


def contender(answers: PairAnswers, sha256: str = "new", until: str = "2024-03-20", version: int = 0):
    measured = judging.measure(KNOWN, PAIRS, answers, MODEL, version)
    return replace(measured, sha256=sha256, trained_until=until)


def test_a_model_below_the_floor_of_recall_is_refused(parsed):
    half = contender(answer(np.arange(COUNT) % 2 == 0))
    assert judging.judge(half, NOBODY, parsed(evaluation={"min_recall": 0.4})).decision is Decision.PASS
    verdict = judging.judge(half, NOBODY, parsed(evaluation={"min_recall": 0.9}))
    assert verdict.decision is Decision.FAIL
    assert verdict.reasons[-1] == f"Recall@5 {half.metrics['recall_at_5']:.3f} is below the floor 0.9."
    assert next(measure for measure in verdict.measures if measure.name == "recall_at_5").is_beyond_limit


def test_a_champion_is_replaced_by_what_finds_more_of_the_same_pairs(parsed):
    half, whole = answer(np.arange(COUNT) % 2 == 0), answer()
    better = judging.judge(contender(whole), contender(half, "old", version=3), parsed())
    assert (better.decision, better.compared_with.version) == (Decision.PASS, 3)
    gain = next(measure for measure in better.measures if measure.name == "recall_at_5_gain")
    assert gain.interval[0] > 0.3
    worse = judging.judge(contender(half), contender(whole, "old", version=3), parsed())
    assert worse.decision is Decision.FAIL


def judged_pairs(answers: PairAnswers, hits: np.ndarray | None = None) -> JudgedPairs:
    return JudgedPairs(LABELS, answers.scores, np.ones(COUNT) if hits is None else hits, GROUPS)


def test_a_scanner_on_which_findings_are_not_told_apart_refuses_a_model_by_its_name(parsed):
    blind = replace(answer(), scores=np.where(OLD[:, None], 0.5, answer().scores))
    challenger = contender(blind)
    parts = list(subgroups.measure_subgroups(ROWS, judged_pairs(blind), 20))
    assert [(part.column, part.name, part.rows) for part in parts] == [
        ("scanner", "new", 160), ("scanner", "old", 80), ("site", "north", 240),
    ]  # fmt: skip
    assert parts[1].auc_roc.gap.value == pytest.approx(0.5)
    assert parts[2].auc_roc is None  # there are no others
    verdict = judging.judge(replace(challenger, subgroups=parts), NOBODY, parsed())
    assert verdict.decision is Decision.FAIL
    assert "Mean ROC AUC of scanner 'old' is 0.500 on 80 pairs, that of all others 1.000" in verdict.reasons[-1]
    lenient = parsed(evaluation={"max_gap": 0.6})
    assert judging.judge(replace(challenger, subgroups=parts), NOBODY, lenient).decision is Decision.PASS


def test_a_scanner_whose_images_do_not_find_their_reports_refuses_a_model(parsed):
    challenger = contender(answer(~OLD))
    parts = list(subgroups.measure_subgroups(ROWS, judged_pairs(answer(), (~OLD).astype(float)), 20))
    verdict = judging.judge(replace(challenger, subgroups=parts), NOBODY, parsed())
    assert "Recall@5 of scanner 'old' is 0.000 on 80 pairs" in verdict.reasons[-1]


@pytest.mark.parametrize(("rows", "least"), [(OLD & (GROUPS < 50), 20), (OLD, 81)])
def test_a_subgroup_of_few_rows_or_patients_is_not_judged(rows, least):
    parts = subgroups.measure_subgroups(
        pd.DataFrame({"site": np.where(rows, "far", None)}), judged_pairs(answer()), least
    )
    assert [(part.name, part.auc_roc, part.recall) for part in parts] == [
        ("far", None, None), (subgroups.UNKNOWN, None, None),
    ]  # fmt: skip


def test_equal_subgroups_show_no_gap_beyond_noise(parsed):
    noisy = replace(answer(), scores=RANDOM.random((COUNT, 3)).astype(np.float32))
    parts = list(subgroups.measure_subgroups(ROWS, judged_pairs(noisy), 20))
    assert all(part.auc_roc.gap.low < 0 < part.auc_roc.gap.high for part in parts[:2])


class CornerGraph:
    """Reads the first finding off the upper left corner and the second off the middle; the third is never there."""

    def run(self, names: tuple[str, ...], inputs: Any) -> dict[str, np.ndarray]:
        pixels = inputs["pixels"][..., 0] / 255
        scores = np.stack([pixels[:, 1, 1], pixels[:, 6, 6], np.zeros(len(pixels))], axis=1)
        return dict.fromkeys(names, scores.astype(np.float32))


def draw_marks() -> np.ndarray:
    pixels = np.full((COUNT, 14, 14, 1), 20, np.uint8)
    pixels[LABELS[:, 0], 1, 1] = 240
    pixels[LABELS[:, 1], 6, 6] = 240
    return pixels


def test_a_finding_that_is_read_off_a_corner_holds_a_model_for_a_person(parsed):
    graph, inputs = CornerGraph(), {"pixels": draw_marks(), "tokens": np.zeros((COUNT, 8), np.int32)}
    scores = graph.run(("score",), inputs)["score"]
    hidden = shortcuts.score_hidden(graph, inputs)
    seen = shortcuts.find_shortcuts(judged_pairs(PairAnswers(scores, None)), hidden, CLASSES, [0.5] * 3, 20)
    assert [shortcut.rows for shortcut in seen] == [LABELS[:, 0].sum(), LABELS[:, 1].sum(), 0]
    assert seen[0].fall.low > 0.8 and seen[1].fall.value == 0 and seen[2].fall is None
    assert (seen[0].auc_roc, seen[0].hidden_auc_roc, seen[1].hidden_auc_roc) == (1, 0.5, 1)
    challenger = replace(contender(answer()), shortcuts=seen)
    verdict = judging.judge(challenger, NOBODY, parsed())
    assert (verdict.decision, verdict.is_held) == (Decision.UNDECIDED, True)
    assert verdict.caveat.startswith("Without the corners of images, the score of 'nodule' falls by 0.863")
    allowed = judging.judge(challenger, NOBODY, parsed(evaluation={"max_shortcut": 1.0}))
    assert allowed.decision is Decision.PASS


def test_hidden_corners_have_the_median_of_the_border_and_the_rest_stays():
    pixels = RANDOM.integers(100, 200, (3, 14, 14, 3), dtype=np.uint8)
    hidden = shortcuts.hide_corners(pixels)
    assert np.array_equal(hidden[:, 2:12], pixels[:, 2:12]) and np.array_equal(hidden[:, :2, 2:12], pixels[:, :2, 2:12])
    assert (hidden[:, 0, 0] == hidden[:, 13, 13]).all() and (hidden[:, 1, 1] == hidden[:, 12, 1]).all()


SHAPE = PairShape(findings=3)
PREPROCESSING = ImageTextPreprocessing(
    classes=CLASSES, side=SHAPE.side, channels=1, min_side=1, max_pixels=10_000, length=SHAPE.length,
    tokenizer=None, tokenizer_sha256="", vocabulary=SHAPE.vocabulary, pad=tokens.PAD,
)  # fmt: skip


class Night:
    """The pairs of a day in a lake, and a model of random weights with two candidates."""

    def __init__(self, folder: Path, config: Any) -> None:
        words = ["clear", "nodule", "left", "right", "large"]
        self.reports = [" ".join(RANDOM.choice(words, 4)) for _ in range(COUNT)]
        self.inputs = np.zeros(COUNT, [("pixels", np.uint8, (SHAPE.side, SHAPE.side, 1)), ("tokens", np.int32, (6,))])
        self.inputs["pixels"] = RANDOM.integers(0, 256, (COUNT, SHAPE.side, SHAPE.side, 1))
        self.inputs["tokens"] = tokens.encode_texts(Tokenizer(b"", SHAPE.vocabulary, tokens.PAD), 6, self.reports)
        times = pd.date_range(DAY, periods=COUNT, freq="min", tz="UTC")
        labels = [encode(name for name, has in zip(CLASSES, row, strict=True) if has) for row in LABELS]
        ids = {"event_id": [f"e{row}" for row in range(COUNT)], "event_time": times}
        self.rows = pd.DataFrame({**ids, "group": GROUPS, "label": labels, **ROWS})
        written = {"events": pd.DataFrame({**ids, "report": self.reports}), "features": self.rows}
        parts = {}
        for table, frame in written.items():
            uri = tables.partition_uri(str(folder), "scans", table, date.fromisoformat(DAY), "a" * 16)
            parts[table] = tables.write_partition(uri, date.fromisoformat(DAY), frame, {})
        self.features = tables.Table("features", [parts["features"]])
        self.uri = str(folder / "model")
        graphs = {name: build_pair_graph(SHAPE, seed) for seed, name in enumerate(("clip", "images_only"))}
        self.model = packages.manifest(
            graphs,
            signature=SHAPE.signature,
            preprocessing=PREPROCESSING,
            decision=DecisionRule(threshold=None, thresholds=[0.5] * 3),
        )
        package.save(self.uri, self.model, graphs, pd.DataFrame())
        days = Days(date.fromisoformat(DAY), date.fromisoformat(DAY))
        self.test = evaluation.PairsUnderTest(config, days, 0, self.rows, self.inputs, features=self.features)

    def report(self) -> EvaluationReport:
        candidates = {name: self.test.measure(self.uri, self.model, name) for name in self.model.candidates}
        champion = replace(candidates["images_only"], sha256="old", version=3)
        return self.test.report(self.uri, self.model, candidates, champion, None)


@pytest.fixture(scope="module")
def night(tmp_path_factory, parsed) -> Night:
    return Night(tmp_path_factory.mktemp("night"), parsed())


@pytest.fixture(scope="module")
def report(night) -> EvaluationReport:
    return night.report()


def find_block(report: EvaluationReport, title: str) -> Any:
    return next(block for block in report.blocks if title in getattr(block, "title", ""))


def test_a_report_shows_retrieval_beside_the_champion_the_baselines_and_chance(report):
    table = find_block(report, "Right one among the nearest")
    names = [row.cells[0] for row in table.rows]
    assert names == ["clip", "images_only", "champion, version 3", "by chance, mean of both"]
    at_5 = report.figures.recalls["clip"][1]
    assert table.rows[0].cells[2] == Estimate(**dict(at_5.reports))
    assert table.rows[-1].cells[1:] == 2 * [recall.chance for recall in report.figures.recalls["clip"]]


def test_differences_to_others_have_intervals_on_the_same_pairs(report):
    table = find_block(report, "Differences on the same pairs")
    assert [row.cells[0] for row in table.rows] == ["images_only", "champion, version 3"]
    assert all(isinstance(cell, Estimate) for row in table.rows for cell in row.cells[1:])
    models = report.figures.models
    gain = models["clip"]["recall_at_5"] - models["images_only"]["recall_at_5"]
    assert table.rows[0].cells[1].value == pytest.approx(gain)


def test_each_finding_is_shown_with_its_area_calibration_and_threshold(report):
    table = find_block(report, "Classes")
    titles = [column.title for column in table.columns]
    assert titles[-4:] == ["Average precision", "ROC AUC", "Calibration error", "Threshold"]
    assert all(0 <= row.cells[-3] <= 1 and row.cells[-1] == 0.5 for row in table.rows)


def test_scanners_sites_and_hidden_corners_have_tables(report):
    subgroups_table = find_block(report, "Scanners and sites")
    assert [row.cells[0] for row in subgroups_table.rows] == ["scanner new", "scanner old", "site north"]
    assert subgroups_table.rows[2].tag == "too few to judge"
    assert [row.cells[0] for row in find_block(report, "corners of images hidden").rows] == CLASSES


def test_examples_show_an_image_with_its_report_and_the_nearest_ones_right_or_wrong(night, report):
    pictures, table = find_block(report, "Images and their nearest"), find_block(report, "Reports nearest")
    assert len(pictures.pictures) == 6
    own = [row for row in table.rows if row.cells[1] == "its own"]
    assert [row.cells[2] for row in own] == [night.reports[int(row.cells[0][1:])] for row in own]
    for row in table.rows:
        if row.cells[1] != "its own":
            is_same = row.cells[2] == night.reports[int(row.cells[0][1:])]
            assert (row.tone == "good", "right" in row.cells[1]) == (is_same, is_same)


def test_a_report_that_is_no_longer_the_one_that_was_trained_on_is_not_shown_as_it(night):
    texts = ReportTexts(night.features, Tokenizer(b"", SHAPE.vocabulary, tokens.PAD))
    other = night.inputs["tokens"][0] + 1
    assert texts.read(night.rows.iloc[0], other) == tokens.HASHED


def test_the_surest_mistakes_are_shown_as_images(report):
    assert isinstance(find_block(report, "surest mistakes"), Pictures)


def test_what_is_written_can_be_read_again(tmp_path, report):
    report.figures.write(str(tmp_path / "evaluation.json"))
    assert PairEvaluation.read(str(tmp_path / "evaluation.json")) == report.figures
