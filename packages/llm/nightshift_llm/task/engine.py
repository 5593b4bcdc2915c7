"""A language model's weights as GGUF files for engines, with the quantized ones judged against the original."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.optimization import EngineVariant
from nightshift.contracts.package import Format, ModelPackage
from nightshift.contracts.section import Estimate
from nightshift.contracts.verdict import Decision
from nightshift_llm import gate, gguf, quantization
from nightshift_llm.config import LanguageServedFiles
from nightshift_llm.gate import Evidence, QuantizationLimits
from nightshift_llm.llamacpp import ContextOptions
from nightshift_llm.preprocessing import LanguagePreprocessing

ORIGINAL = "F16"
SUFFIX = ".{}.gguf"
LOADED = (Format.JSON, Format.SAFETENSORS)  # formats of the files that a GGUF file is converted from


@dataclass(frozen=True)
class QuantizationTrial:
    """The setup for judging quantized files.

    Attributes:
        original: F16 file; the quantized ones are written beside it.
        documents: texts that the model was not trained on.
        options: options of the llama.cpp contexts.
        limits: limits of the loss in quality and speed.
    """

    original: Path
    documents: Sequence[str]
    options: ContextOptions
    limits: QuantizationLimits

    def measure(self, name: str) -> tuple[Path, Evidence]:
        """Write the file of a quantization type, and measure it and the original."""
        file = self.original.with_name(self.original.name.removesuffix(SUFFIX.format(ORIGINAL)) + SUFFIX.format(name))
        quantization.quantize(self.original, file, name)
        folder = str(self.original.parent)
        return file, gate.measure_evidence(self.original, file, self.documents, folder, self.options)

    def describe(self, name: str, file: Path, evidence: Evidence) -> EngineVariant:
        """Judge a quantized file."""
        verdict, added = gate.judge(evidence, self.limits, storage.digest(str(file))), evidence.documents.increase()
        is_refused = verdict.decision is Decision.FAIL
        damage = [gate.explain_damage(self.original, file)] if is_refused else []
        return EngineVariant(
            name=name,
            file=file.name,
            size=file.stat().st_size,
            bits_per_byte=evidence.documents.means[1],
            added_bits=Estimate(value=added.value, low=added.low, high=added.high),
            tokens_per_second=evidence.speeds.medians[1],
            decision=verdict.decision,
            reasons=[*verdict.reasons, *damage],
        )

    def describe_original(self, evidence: Evidence) -> EngineVariant:
        """Describe the original, as it was measured beside a quantized file."""
        return EngineVariant(
            name=ORIGINAL,
            file=self.original.name,
            size=self.original.stat().st_size,
            bits_per_byte=evidence.documents.means[0],
            tokens_per_second=evidence.speeds.medians[0],
            decision=Decision.PASS,
            reasons=["It has the trained weights in 16 bits."],
        )


def write_variants(
    settings: LanguageServedFiles, uri: str, model: ModelPackage, documents: Sequence[str], folder: Path
) -> list[EngineVariant]:
    """Write the original and the quantization types of the settings into a folder, and judge the quantized files.

    Args:
        settings: types and limits.
        uri: folder of the model.
        model: its manifest.
        documents: texts that the model was not trained on.
        folder: to write into.

    Raises:
        UserError: when a file cannot be written or measured.
    """
    original = folder / (model.selected + SUFFIX.format(ORIGINAL))
    checkpoint = folder / model.selected  # this name is part of the file
    others = {name for key, other in model.candidates.items() if key != model.selected for name in other.weights}
    loaded = (file.name for file in model.files if file.format in LOADED and file.name not in others)
    package.copy(uri, str(checkpoint), loaded)
    gguf.convert(checkpoint, original)
    options = ContextOptions(model.preprocessing_as(LanguagePreprocessing).length)
    # no limit on speed, which depends on the machine's load: equal nights serve equal bytes
    limits = QuantizationLimits(bits=settings.max_added_bits, speedup=None)
    trial = QuantizationTrial(original, documents, options, limits)
    measured = {name: trial.measure(name) for name in settings.weight_types}
    variants = [trial.describe(name, *evidence) for name, evidence in measured.items()]
    return [trial.describe_original(evidence) for _, evidence in [*measured.values()][:1]] + variants
