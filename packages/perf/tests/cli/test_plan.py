"""`nightshift perf plan` as a person calls it."""

import json
import re
from pathlib import Path

import pytest
import yaml

from nightshift.runtime.errors import UserError
from packages.perf.tests.planning.serving.test_shapes import write
from tests.pipelines.samples import called

LLAMA_10B = ["--model", "llama-10b", "--gpu", "a100-80gb", "--nodes", "2", "--gpus-per-node", "4", "--batch", "64"]


def test_a_plan_is_printed_with_its_cost(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--model", "llama3-8b", "--gpu", "h100-80gb", "--batch", "16"]

    assert called("perf", "plan", *words, "--samples", "1e6", "--usd-per-gpu-hour", "3") == 0

    printed = capsys.readouterr().out
    (seconds,), (cost,) = re.findall(r"([\d.]+) s ", printed), re.findall(r"([\d,.]+) USD", printed)
    assert float(cost.replace(",", "")) == pytest.approx(1e6 / 16 * float(seconds) / 3600 * 8 * 3, rel=1e-3)
    assert "layout   --micro-batch" in printed


def test_this_trainer_is_planned_unless_another_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert called("perf", "plan", *LLAMA_10B) == 0
    own = capsys.readouterr().out
    assert called("perf", "plan", *LLAMA_10B, "--trainer", "megatron") == 0
    published = capsys.readouterr().out

    assert "--zero 2" in published  # beside a pipeline this trainer does not have it
    assert published.rstrip().endswith("--trainer megatron")
    assert "78.2 of 79.1 GiB" in own and "native" in own and "--zero 0" in own


def test_a_model_is_given_by_its_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--layers", "12", "--hidden", "768", "--heads", "12", "--vocabulary", "50257", "--sequence", "1024"]

    assert called("perf", "plan", *sizes, "--gpu", "l4", "--gpus-per-node", "1", "--batch", "8") == 0

    assert "0.163 billion" in capsys.readouterr().out


def test_a_model_is_given_by_its_config_with_the_tokens_of_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    sizes = {"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8}
    sizes |= {"intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072}
    file.write_text(json.dumps({"model_type": "llama", **sizes}))
    words = ["--gpu", "h100-80gb", "--batch", "16"]

    assert called("perf", "plan", "--model", str(file), "--sequence", "8192", *words, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert called("perf", "plan", "--model", "llama3-8b", *words, "--json") == 0
    preset = json.loads(capsys.readouterr().out)

    assert document | {"model": ""} == preset | {"model": ""}
    with pytest.raises(UserError, match=r"--sequence is missing: .* says how many tokens a row may have"):
        called("perf", "plan", "--model", str(file), *words)


def test_adapters_are_in_the_written_plan(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    words = ["--model", "llama2-7b", "--gpu", "a100-40gb", "--gpus-per-node", "1", "--batch", "8", "--lora-rank", "16"]

    assert called("perf", "plan", *words, "--lora-bits", "4", "--write", str(file)) == 0

    assert {"lora_rank": 16, "lora_bits": 4}.items() <= yaml.safe_load(file.read_text())["network"].items()
    with pytest.raises(UserError, match=r"--lora-bits are for transformers, with a rank above 0"):
        called("perf", "plan", *words[:-2], "--lora-bits", "4")


def test_a_written_plan_is_the_trainers_config_with_what_starts_it(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"

    layout = ["--pipeline", "2", "--zero", "3", "--checkpointing", "selective"]
    assert called("perf", "plan", *LLAMA_10B, *layout, "--write", str(file)) == 0

    plan, trainjob = yaml.safe_load(file.read_text()), yaml.safe_load((tmp_path / "plan.trainjob.yaml").read_text())
    assert plan["trainer"] == {"nodes": 2, "processes": 4, "shard": 4, "pipeline": 2}
    fit = {"batch_size": 64, "microbatches": 16, "precision": "bf16", "recompute": "selective", "compile": "default"}
    assert plan["network"] == fit
    planned = plan["planned"]
    assert planned["memory_bytes"] > planned["states_bytes"] + planned["activations_bytes"]
    assert planned["bubble"] == pytest.approx(1 / 17, rel=0.1) and planned["throughput_unit"] == "tokens"
    assert "--max-restarts 3 --nproc-per-node 4 --nnodes 2 -m components.training" in plan["launch"]
    assert trainjob["spec"]["trainer"]["numNodes"] == 2
    batch_file = (tmp_path / "plan.sbatch").read_text()
    assert (
        "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\n" in batch_file and "sbatch plan.sbatch --config" in batch_file
    )


def test_a_written_plan_is_not_one_of_a_published_trainer(tmp_path: Path) -> None:
    words = ["--trainer", "megatron", "--write", str(tmp_path / "plan.yaml")]

    with pytest.raises(UserError, match=r"--trainer megatron is not one that Nightshift's trainer runs"):
        called("perf", "plan", *LLAMA_10B, *words)

    assert not list(tmp_path.iterdir())


def test_serving_is_planned_with_its_cost_and_with_what_was_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--gpu", "h100-80gb", "--rate", "10", "--precision", "bf16"]
    assert called("perf", "plan", "--serve", "--model", "llama3-70b", *words) == 0

    printed = capsys.readouterr().out
    assert "p5.48xlarge" in printed and "p4de" not in printed and "fp8" not in printed
    assert "rejected 1 x h100-80gb, bf16: weights of 131.4 GiB leave no room" in printed
    assert re.search(r"error    in tokens/s at publishers left out of the fit: \d+% in the median, \d+%", printed)


def test_weights_that_are_quantized_already_are_planned_in_their_precision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, quantization_config={"quant_method": "fp8"})

    assert called("perf", "plan", "--serve", "--model", str(tmp_path), "--gpu", "h200-141gb", "--json") == 0

    plan = json.loads(capsys.readouterr().out)
    assert {fleet["precision"] for fleet in plan["fleets"]} == {"fp8"}
    assert 0 < plan["throughput_error_median"] < plan["throughput_error_p90"] < 0.5
    with pytest.raises(UserError, match=r"--precision is bf16, and the weights of .* are quantized to fp8"):
        called("perf", "plan", "--serve", "--model", str(tmp_path), "--precision", "bf16")


@pytest.mark.parametrize(
    ("words", "message"),
    (
        (["--gpu", "l4"], r"no machine serves this: 1 x l4, bf16: .*\. Raise --first-token-ms or --token-ms, shorten"),
        (
            ["--gpu", "v100-32gb"],
            r"--gpu is 'v100-32gb', and no machine of .*prices.yaml has it.* choose one of",
        ),
        (["--gpu", "a100-80gb", "--precision", "fp8"], r"no machine serves this: none has such a replica and a price"),
        (["--rate", "-1"], r"--rate is -1; give a number above 0"),
        (["--batch", "8", "--zero", "3"], r"--batch, --zero describe a training; leave them out with --serve"),
        (["--model", "custom"], r"plan --serve needs --model: a preset"),
    ),
)
def test_serving_that_no_machine_can_do_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        called("perf", "plan", "--serve", "--model", "llama3-70b", *words)
