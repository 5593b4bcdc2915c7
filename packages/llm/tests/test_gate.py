from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGUFReader
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from nightshift import storage
from nightshift.contracts.verdict import Decision
from nightshift.runtime.errors import UserError
from nightshift_llm import gate, llamacpp
from nightshift_llm.contracts.likelihoods import Likelihoods
from nightshift_llm.gate import Evidence, PairedLosses, PairedSpeeds, QuantizationLimits, judge
from nightshift_llm.likelihood import measure_likelihoods, resume_likelihoods
from nightshift_llm.llamacpp import ContextOptions
from nightshift_llm.quantization import quantize
from packages.llm.tests.conftest import CONTEXT

OPTIONS = ContextOptions(CONTEXT)
FASTER = PairedSpeeds(np.full(6, 100.0), np.array([120, 125, 130, 122, 127, 124.0]))
LIMITS = QuantizationLimits(bits=0.005)
BLOCK_BYTES = 18  # Q4_0's block: a scale in float16, 32 numbers of 4 bits


def double_scales(file: Path, layer: int) -> None:
    for tensor in GGUFReader(file, "r+").tensors:
        if tensor.name.startswith(f"blk.{layer}.") and tensor.tensor_type.name == "Q4_0":
            scales = tensor.data.reshape(-1, BLOCK_BYTES)[:, :2].view(np.float16)
            scales *= np.float16(2)


def measure(original: Path, quantized: Path, documents: list[str]) -> Evidence:
    pair = [measure_likelihoods(file, documents, OPTIONS) for file in (original, quantized)]
    return Evidence(gate.pair_documents(*pair), FASTER)


def test_bits_are_those_that_transformers_finds(trained: Path, original: Path, documents: list[str]) -> None:
    model, tokens = LlamaForCausalLM.from_pretrained(trained), Tokenizer.from_file(str(trained / "tokenizer.json"))
    likelihoods = measure_likelihoods(original, documents, OPTIONS)
    for document, bits, size in zip(documents, likelihoods.bits, likelihoods.bytes, strict=True):
        ids = tokens.encode(document).ids
        nats = 0.0
        for start in range(0, len(ids) - 1, CONTEXT):  # windows of CONTEXT predictions
            window = torch.tensor([ids[start : start + CONTEXT + 1]])
            with torch.no_grad():
                nats += float(model(input_ids=window, labels=window).loss) * (window.shape[1] - 1)
        assert bits == pytest.approx(nats / np.log(2), rel=2e-3)
        assert size == len(document.encode())  # the first token is no text


def test_a_good_quantization_passes(original: Path, tmp_path: Path, documents: list[str]) -> None:
    quantize(original, tmp_path / "q.gguf", "Q4_0")
    verdict = judge(measure(original, tmp_path / "q.gguf", documents), LIMITS, storage.digest(str(tmp_path / "q.gguf")))
    assert verdict.is_pass, verdict.reasons
    assert verdict.subject == storage.digest(str(tmp_path / "q.gguf"))
    assert [measure.name for measure in verdict.measures] == ["added_bits_per_byte", "speedup"]


@pytest.mark.parametrize("layer", [0, 1])
def test_a_layer_with_doubled_scales_is_refused_and_named(
    original: Path, tmp_path: Path, documents: list[str], layer: int
) -> None:
    quantize(original, tmp_path / "q.gguf", "Q4_0")
    double_scales(tmp_path / "q.gguf", layer)
    evidence = measure(original, tmp_path / "q.gguf", documents)
    verdict = judge(evidence, LIMITS, "0" * 64)
    before, after = evidence.documents.means
    assert verdict.decision is Decision.FAIL
    assert f"Bits per byte went from {before:.4f} to {after:.4f}" in verdict.reasons[0]
    sentence = gate.explain_damage(original, tmp_path / "q.gguf")
    assert sentence.startswith(f"The weights of layer {layer} differ most from the original, by 10"), sentence


def losses(added: float, count: int = 200) -> PairedLosses:
    rng = np.random.default_rng(1)
    original, noise = rng.uniform(1, 2, count), rng.normal(0, 0.01, count)
    return PairedLosses(original, original + added + noise, np.ones(count))


@pytest.mark.parametrize(
    ("added", "decision"), [(0.0, Decision.PASS), (0.02, Decision.UNDECIDED), (0.05, Decision.FAIL)]
)
def test_the_interval_decides(added: float, decision: Decision) -> None:
    evidence = Evidence(losses(0.0), FASTER, {"copying": losses(added)})
    verdict = judge(evidence, QuantizationLimits(), "0" * 64)
    assert verdict.decision is decision
    if decision is not Decision.PASS:
        assert [reason.split(" went")[0] for reason in verdict.reasons] == ["Copying"]


@pytest.mark.parametrize("count", [1, gate.MIN_PAIRS - 1])
@pytest.mark.parametrize("added", [-1.0, 5.0])
def test_too_few_documents_decide_nothing(added: float, count: int) -> None:
    verdict = judge(Evidence(losses(added, count), FASTER), QuantizationLimits(), "0" * 64)
    assert verdict.decision is Decision.UNDECIDED
    assert verdict.reasons[0].endswith(f": on {count}; at least {gate.MIN_PAIRS} are needed to decide.")


@pytest.mark.parametrize(
    ("speedups", "decision"),
    [([1.3] * 6, Decision.PASS), ([0.9, 0.95, 1.1, 1.2, 1.3], Decision.UNDECIDED), ([0.8] * 6, Decision.FAIL)],
)
def test_a_model_that_is_no_faster_is_no_gain(speedups: list[float], decision: Decision) -> None:
    speeds = PairedSpeeds(np.full(len(speedups), 50.0), 50 * np.array(speedups))
    verdict = judge(Evidence(losses(0.0), speeds), QuantizationLimits(), "0" * 64)
    assert verdict.decision is decision
    assert "times as fast as the original" in verdict.reasons[-1]


def test_speeds_are_measured_in_turn(original: Path) -> None:
    with llamacpp.load(original, ContextOptions(16)) as first, llamacpp.load(original, ContextOptions(16)) as second:
        speeds = gate.measure_speeds(first, second, "In the beginning", pairs=2)
    assert len(speeds.original) == len(speeds.quantized) >= 2
    assert min(speeds.medians) > 0


def test_a_gate_that_goes_on_knows_its_file_and_its_documents(
    original: Path, tmp_path: Path, documents: list[str]
) -> None:
    uri, quantized = str(tmp_path / "likelihoods.json"), tmp_path / "q.gguf"
    quantize(original, quantized, "Q8_0")
    first = resume_likelihoods(uri, original, documents[:2], OPTIONS)
    marked = first.model_copy(update={"bits": [1.0, 2.0]})
    marked.write(uri)
    assert resume_likelihoods(uri, original, documents[:2], OPTIONS) == marked
    assert resume_likelihoods(uri, quantized, documents[:2], OPTIONS) != marked
    marked.write(uri)
    assert resume_likelihoods(uri, original, documents[1:3], OPTIONS) != marked
    assert Likelihoods.read(uri).documents_sha256 == storage.fingerprint(documents[1:3])


def test_other_documents_are_no_pair(original: Path, documents: list[str]) -> None:
    some, others = (measure_likelihoods(original, part, OPTIONS) for part in (documents[:1], documents[1:2]))
    with pytest.raises(UserError, match="measure both again"):
        gate.pair_documents(some, others)


def test_no_document_is_refused(original: Path) -> None:
    with pytest.raises(UserError, match="one text per line"):
        measure_likelihoods(original, [], OPTIONS)
