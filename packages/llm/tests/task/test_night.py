"""A language model's night: from texts to a model that is measured, watched, replaced by a better one, and served."""

import json
import re
from copy import deepcopy
from datetime import date
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from safetensors.torch import load
from transformers import LlamaConfig, LlamaForCausalLM

from components.evaluation import __main__ as evaluation
from components.optimization import __main__ as optimization
from components.profiling import __main__ as profiling
from components.training import __main__ as training
from nightshift import storage
from nightshift.config import parse
from nightshift.contracts import package, tables
from nightshift.contracts.deployment import Deployment
from nightshift.contracts.drift import DriftReport
from nightshift.contracts.optimization import Optimization
from nightshift.contracts.profile import Profile
from nightshift.contracts.section import read_section
from nightshift.contracts.verdict import Verdict
from nightshift.data import splits
from nightshift.data.splits import Days
from nightshift.runtime.errors import UserError
from nightshift.serving.batching import ServerLimits
from nightshift.serving.prediction_log import PredictionLog
from nightshift_llm.contracts.evaluation import LanguageEvaluation
from nightshift_llm.task import documents, release
from nightshift_llm.task import evaluation as documents_under_test
from nightshift_llm.task import optimization as language
from nightshift_llm.task.scores import DocumentScorer
from tests.components.tales import CONFIG, Night
from tests.nightshift.serving.conftest import serving

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("language")]

NAMES = ["inputs", "score", "novelty", "domain_classifier", "mmd", "volume", "performance"]
FIRST, SECOND = "2024-03-10", "2024-03-11"


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Night, Night]:
    """A night whose model learns next to nothing, and the next one."""
    workspace, weak = tmp_path_factory.mktemp("tales"), deepcopy(CONFIG)
    weak["task"]["candidates"]["llama"]["parameters"]["learning_rate"] = 1e-5
    both = Night(workspace, FIRST, weak), Night(workspace, SECOND, CONFIG)
    for night in both:
        night.run()
    return both


@pytest.fixture(scope="module")
def night(nights: tuple[Night, Night]) -> Night:
    return nights[1]


@pytest.fixture(scope="module")
def scorer(night: Night) -> DocumentScorer:
    uri = str(night.folder / "model")
    return DocumentScorer.open(uri, package.load(uri))


def features(night: Night) -> tables.Table:
    return tables.read_table(str(night.folder / "features.json"))


def test_a_better_model_replaces_the_champion(nights: tuple[Night, Night]) -> None:
    first, second = (Deployment.read(str(night.folder / "deployment.json")) for night in nights)
    assert [(record.version, record.decision) for record in (first, second)] == [(1, "promoted"), (2, "promoted")]
    verdict = Verdict.read(str(nights[1].folder / "evaluation/verdict.json"))
    assert verdict.reasons[1] == "It is better beyond noise."
    assert verdict.compared_with.version == 1


@pytest.mark.parametrize(
    ("limits", "decision", "reason"),
    [
        ({"min_rows": 20, "max_bits_per_byte": 1.0}, "fail", r"Bits per byte .* is above 1\."),
        ({"min_rows": 20, "max_memorized": 0.0}, "pass", r"The challenger takes .*"),
        ({"min_rows": 49}, "undecided", r"There are 48 test texts; at least 49 are needed to decide\."),
    ],
    ids=["too many bits", "nothing memorized", "too few texts"],
)
def test_a_gate_refuses_or_decides_nothing(night: Night, limits: dict[str, float], decision: str, reason: str) -> None:
    strict = Night(night.workspace, SECOND, night.config | {"evaluation": limits})
    evaluation.evaluate(strict.context(features="features.json", model="model", evaluation=decision), lambda _: None)
    verdict = Verdict.read(str(night.folder / decision / "verdict.json"))
    assert verdict.decision == decision
    assert re.fullmatch(reason, verdict.reasons[-1])


@pytest.mark.parametrize("difference", [{"tokenizer_sha256": "0" * 64}, {"start": 0}, {"chat": True}], ids=str)
def test_a_model_of_other_tokens_is_no_rival_and_takes_none_of_the_features(
    night: Night, difference: dict[str, object]
) -> None:
    model = package.load(str(night.folder / "model"))
    other = model.model_copy(update={"preprocessing": model.preprocessing.model_copy(update=difference)})
    fold = splits.plan(parse(night.config), date.fromisoformat(SECOND)).test
    rows = documents_under_test.EvaluationTask().read_test_rows(parse(night.config), features(night), fold, model)
    assert rows.incompatibility(model, other) == "takes other tokens"
    assert rows.incompatibility(model, model) == ""
    with pytest.raises(UserError, match=r"the features are of .*; train again"):
        documents_under_test.EvaluationTask().read_test_rows(parse(night.config), features(night), fold, other)


def test_the_evaluation_gives_bits_per_byte_of_all_texts_and_of_parts_of_them(night: Night) -> None:
    figures = LanguageEvaluation.read(str(night.folder / "evaluation/evaluation.json"))
    value, interval = figures.models["llama"]["bits_per_byte"], figures.intervals["llama"]["bits_per_byte"]
    assert 1 < interval.low < value < interval.high < 6
    sources = [part for part in figures.slices if part.name.startswith("source ")]
    assert {part.name for part in sources} == {f"source {name}" for name in ("finance", "health", "sports", "travel")}
    assert sum(part.rows for part in sources) == figures.test.rows == 48
    titles = [block.title for block in read_section(str(night.folder / "evaluation")).blocks if hasattr(block, "title")]
    tables = {"Metrics on the test days", "Parts of the test texts", "Memorized passages"}
    assert tables <= set(titles)
    assert "bits per byte" in (night.folder / "evaluation/model_card.md").read_text()


def test_a_text_is_scored_by_all_of_its_rows_and_served_by_its_first(night: Night, scorer: DocumentScorer) -> None:
    rows = tables.read_table(str(night.folder / "scores/scores.json")).read([date.fromisoformat(SECOND)])
    assert (rows["bytes"] > 64).any()
    text = features(night).read([date.fromisoformat(SECOND)]).iloc[[int(rows["bytes"].argmax())]]
    (document,) = documents.read_tokens(text)
    cut, _ = documents.cut_rows([document], scorer.preprocessing)
    scores, sizes = scorer.score_rows(cut), (cut[:, 1:] != scorer.preprocessing.start).sum(1)
    scored = rows.loc[rows["bytes"].idxmax()]
    assert scored["score"] == scores[0]
    assert scored["bits"] == pytest.approx((scores * sizes).sum(), rel=1e-6)


def test_drift_compares_lengths_and_scores_and_holds_the_model_to_its_promise(night: Night) -> None:
    report = DriftReport.read(str(night.folder / "drift/drift.json"))
    assert [signal.name for signal in report.signals] == NAMES
    assert report.signals[-1].reason.endswith("on its validation days.")
    assert {column.name for column in report.columns} == {"bytes", "bytes_per_token", "score"}


def test_the_package_holds_what_engines_load_and_it_scores_alike(night: Night, scorer: DocumentScorer) -> None:
    folder = night.folder / "model"
    names = [file.name for file in package.load(str(folder)).files]
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(names)
    causal = LlamaForCausalLM(LlamaConfig(**json.loads((folder / "config.json").read_text()))).eval()
    causal.load_state_dict(load((folder / "model.safetensors").read_bytes()))
    text = features(night).read([date.fromisoformat(SECOND)]).iloc[:1]
    document = documents.read_tokens(text)[0][: scorer.preprocessing.length + 1]
    tokens = torch.from_numpy(document.astype(np.int64))[None]
    with torch.no_grad():
        loss = causal(input_ids=tokens, labels=tokens).loss.item()
    expected = scorer.score([document])
    assert loss / np.log(2) * (len(document) - 1) / expected.sizes[0] == pytest.approx(expected.bits_per_byte, 1e-4)


def test_a_package_is_where_the_next_training_goes_on_with_adapters(night: Night) -> None:
    continued = {"pretrained": str(night.folder / "model"), "lora_rank": 4, "learning_rate": 0.001, "threads": 1}
    use_case = deepcopy(night.config)
    use_case["task"]["candidates"]["llama"]["parameters"] = continued
    later = Night(night.workspace, SECOND, use_case)
    training.body(later.context(features="features.json", model="adapted"))
    before, after = (package.load(str(night.folder / name)).candidates["llama"] for name in ("model", "adapted"))
    assert after.validation["bits_per_byte"] < before.validation["bits_per_byte"]


def test_int8_is_judged_by_bits_per_byte(night: Night) -> None:
    wanted = {"form": "int8 dynamic", "weight_types": ["Q8_0"]}
    config = night.config | {"optimization": wanted, "evaluation": {"tolerance": 0.5}}
    flags = {"features": "features.json", "model": "model", "optimized": "int8"}
    outcome = optimization.body(Night(night.workspace, SECOND, config).context(**flags))
    judged = Optimization.read(str(night.folder / "int8/optimization.json"))
    assert (outcome["form"], judged.metric) == ("int8 dynamic", "bits per byte")
    assert -0.05 < judged.attempts[-1].loss.value < 0.05
    packaged = package.load(str(night.folder / "int8"))
    assert (packaged.graph("llama").name, packaged.engine_file) == ("llama.int8-dynamic.onnx", "llama.Q8_0.gguf")
    assert packaged.sha256 == judged.sha256
    assert len(package.read_reference(str(night.folder / "int8"))) == len(
        package.read_reference(str(night.folder / "model"))
    )


@pytest.fixture(scope="module")
def quantized(night: Night) -> Path:
    """The package with a file for engines, beside what was made of other types."""
    config = night.config | {"optimization": {"weight_types": ["Q8_0", "Q4_0"], "max_added_bits": 0.05}}
    flags = {"features": "features.json", "model": "model", "optimized": "quantized"}
    optimization.body(Night(night.workspace, SECOND, config).context(**flags))
    return night.folder / "quantized"


def test_the_smallest_file_for_engines_that_its_gate_passes_is_packaged(night: Night, quantized: Path) -> None:
    result, model = Optimization.read(str(quantized / "optimization.json")), package.load(str(quantized))
    original, larger, smaller = result.engine_variants
    assert [variant.name for variant in result.engine_variants] == ["F16", "Q8_0", "Q4_0"]
    assert original.size > larger.size > smaller.size
    assert result.engine_variant == "Q4_0"
    packaged = next(file for file in model.files if file.name == model.engine_file)
    assert (packaged.name, packaged.size) == ("llama.Q4_0.gguf", smaller.size)
    assert packaged.sha256 == storage.digest(str(quantized / packaged.name))
    assert not list(quantized.glob("*F16*"))
    assert result.sha256 == model.sha256 != package.load(str(night.folder / "model")).sha256


def test_files_for_engines_take_as_many_bits_as_the_graph(
    night: Night, quantized: Path, scorer: DocumentScorer
) -> None:
    days = package.load(str(quantized)).lineage.validation
    texts = features(night).read(Days(days.first, days.last))
    original, *others = Optimization.read(str(quantized / "optimization.json")).engine_variants
    expected = scorer.score(documents.read_tokens(texts)).bits_per_byte
    assert original.bits_per_byte == pytest.approx(expected, rel=0.02)
    for variant in others:
        added = variant.added_bits
        assert added.low <= variant.bits_per_byte - original.bits_per_byte <= added.high


def test_a_report_shows_every_file_for_engines_with_its_bits_speed_and_size(quantized: Path) -> None:
    section = read_section(str(quantized))
    (table,) = [block for block in section.blocks if getattr(block, "title", "").startswith("Files for engines")]
    assert [column.title for column in table.columns[:5]] == [
        "Weights", "Size, bytes", "Bits per byte", "Added", "Tokens/s"
    ]  # fmt: skip
    assert [(row.cells[0], row.tag) for row in table.rows] == [("F16", ""), ("Q8_0", ""), ("Q4_0", "chosen")]
    assert all(row.cells[4] > 0 for row in table.rows)


def test_a_model_that_cannot_be_converted_scores_without_a_file_for_engines(night: Night, tmp_path: Path) -> None:
    config = parse(night.config | {"optimization": {"weight_types": ["Q8_0"]}})
    model = package.load(str(night.folder / "model"))
    bare = model.model_copy(update={"files": [file for file in model.files if file.name == "tokenizer.json"]})
    (variant,) = language.OptimizationTask().engine_variants(
        config, features(night), str(night.folder / "model"), bare, tmp_path
    )
    assert (variant.name, variant.decision, variant.file) == ("Q8_0", "undecided", None)
    assert "is missing" in variant.reasons[0]


def test_a_release_weighs_every_text_of_a_day(nights: tuple[Night, Night]) -> None:
    uris = [str(night.folder / "model") for night in nights]
    weak, strong = release.ReleaseTask().losses(features(nights[1]), date.fromisoformat(SECOND), uris)
    assert len(weak) == len(strong) == 24
    assert (strong < weak).all()
    assert weak.max() < 1.2 * release.ReleaseTask().worst


def test_the_training_is_measured_and_gives_the_same_graph(night: Night) -> None:
    profiling.body(night.context(features="features.json", model="model", profile="profile"))
    assert Profile.read(str(night.folder / "profile/profile.json")).reproduced


def test_a_server_answers_the_score_of_a_text_in_every_form(night: Night, tmp_path: Path) -> None:
    text = "de fi go" * 30
    folder, log = tmp_path / "predictions", PredictionLog(str(tmp_path / "predictions"))
    with serving(
        str(night.folder / "model"), tmp_path / "current.json", ServerLimits(rows=8), predictions=log
    ) as server:
        as_body = httpx.post(f"{server.url}/score", content=text, headers={"content-type": "text/plain"}).json()
        listed = httpx.post(f"{server.url}/score", json={"instances": [{"text": text}]}).json()
        tensor = {"name": "text", "datatype": "BYTES", "shape": [1], "data": [text]}
        inferred = httpx.post(f"{server.url}/v2/models/fraud/infer", json={"inputs": [tensor]}).json()
        api = httpx.get(f"{server.url}/openapi.json").json()
    log.close()
    score = as_body["score"]
    assert as_body.keys() == {"score", "model_version"}
    assert listed["predictions"] == [{"score": score, "version": 1}]
    assert [(output["name"], output["data"]) for output in inferred["outputs"]] == [("score", [score])]
    prediction = api["paths"]["/score"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]["oneOf"][0]
    assert set(prediction["properties"]) == {"score", "model_version"}
    (written,) = folder.rglob("*.parquet")
    logged = storage.read_frame(str(written))
    assert np.float32(score) in logged["score"].to_numpy()
    assert logged["label"].isna().all()
