"""The suite as files that lm-evaluation-harness runs too: a task is its items, JSON Lines, and a YAML of the harness.

cd suite && lm_eval --include_path . --tasks nightshift --model local-completions --model_args ...
"""

from typing import Any

import msgspec

from nightshift import storage
from nightshift.runtime.errors import UserError
from nightshift_llm.suite.items import CHOICE, CLOZE, COMPLETION, Suite, SuiteItem

GROUP = "nightshift"
MAX_TOKENS, STOP = 32, "\n"  # limits of a completion, which is cut after its words
WORDS = r"^\s*(\S+\s+\S+)"
TARGET = "{{choices[answer]}}"
FIRST_WORDS = [{"function": "regex", "regex_pattern": WORDS}, {"function": "take_first"}]
GREEDY = {"until": [STOP], "max_gen_toks": MAX_TOKENS, "do_sample": False, "temperature": 0}
# task -> what it has of its own
TASKS: dict[str, dict[str, Any]] = {
    CHOICE: {
        "output_type": "multiple_choice",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{answer}}",
        "metric_list": [{"metric": "acc_norm", "aggregation": "mean", "higher_is_better": True}],
    },
    CLOZE: {
        "output_type": "loglikelihood",
        "doc_to_target": TARGET,
        "metric_list": [
            {"metric": "acc", "aggregation": "mean", "higher_is_better": True},
            {"metric": "perplexity", "aggregation": "perplexity", "higher_is_better": False},
        ],
    },
    COMPLETION: {
        "output_type": "generate_until",
        "doc_to_target": "{{choices[answer].strip()}}",
        "generation_kwargs": GREEDY,
        "filter_list": [{"name": "first_words", "filter": FIRST_WORDS}],
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    },
}


def write_suite(folder: str, suite: Suite) -> None:
    """Write all tasks into a folder."""
    for name, items in suite.items():
        storage.write_bytes(storage.join(folder, f"{name}.jsonl"), msgspec.json.Encoder().encode_lines(items))
        storage.write_bytes(storage.join(folder, f"{name}.yaml"), msgspec.yaml.encode(describe_task(name)))
    group = {"group": GROUP, "task": [f"{GROUP}_{name}" for name in suite]}
    storage.write_bytes(storage.join(folder, f"{GROUP}.yaml"), msgspec.yaml.encode(group))


def read_suite(folder: str) -> Suite:
    """Read the items of all tasks.

    Raises:
        UserError: when a file is missing, or is none.
    """
    return {name: _read_items(storage.join(folder, f"{name}.jsonl")) for name in TASKS}


def describe_task(name: str) -> dict[str, Any]:
    """Return a task as the harness reads it, from the folder of the files."""
    return {
        "task": f"{GROUP}_{name}",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": f"{name}.jsonl"}},
        "test_split": "test",
        "doc_to_text": "{{context}}",
        "target_delimiter": "",
        "metadata": {"version": 1},
        **TASKS[name],
    }


def _read_items(uri: str) -> list[SuiteItem]:
    try:
        items: list[SuiteItem] = msgspec.json.Decoder(SuiteItem).decode_lines(storage.read_bytes(uri))
    except msgspec.DecodeError as error:
        raise UserError(f"{uri} is not a task file of a suite ({error}); write one with nightshift llm suite") from None
    if not items:
        raise UserError(f"suite: {uri} has no items; write it with nightshift llm suite")
    return items
