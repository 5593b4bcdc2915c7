"""Values put into a config's file, whose comments and layout stay."""

from typing import Any

import pytest
import yaml

from pipelines import configs
from pipelines.configs import edits

AT = ("task", "candidates", "mlp", "parameters")
FLOW = """\
# ours
name: tiny   # short
task:
  kind: tabular  # the only one
  candidates:
    mlp:
      kind: mlp
      parameters: {hidden: 256, batch_size: 256}  # chosen by search

# below
costs: {}
"""
BLOCK = """\
task:
  kind: tabular
  candidates:
    mlp:
      parameters:
        # units
        hidden: 256
        batch_size: 256  # rows

        # above the end
      kind: mlp
"""


def put(text: str, **values: Any) -> str | None:
    return edits.set_values(text, {(*AT, name): value for name, value in values.items()})


def test_values_of_one_line_are_changed_and_added_there() -> None:
    old, new = "{hidden: 256, batch_size: 256}", "{hidden: 256, batch_size: 512, precision: bf16, channels_last: true}"

    assert put(FLOW, batch_size=512, precision="bf16", channels_last=True) == FLOW.replace(old, new)


def test_values_of_several_lines_are_changed_and_added_below_the_last() -> None:
    old, new = "batch_size: 256  # rows\n", "batch_size: 512  # rows\n        channels_last: true\n"

    assert put(BLOCK, batch_size=512, channels_last=True) == BLOCK.replace(old, new)


def test_sections_that_are_missing_are_added() -> None:
    text = FLOW.replace("      parameters: {hidden: 256, batch_size: 256}  # chosen by search\n", "")
    values = {(*AT, "channels_last"): True, ("task", "trainer", "compression"): "bf16"}

    assert edits.set_values(text, values) == text.replace(
        "      kind: mlp\n", "      kind: mlp\n      parameters: {channels_last: true}\n"
    ).replace("# the only one\n", "# the only one\n  trainer: {compression: bf16}\n")


@pytest.mark.parametrize(
    "text",
    [
        FLOW.replace("\n", "\r\n"),
        FLOW.replace("{hidden: 256, batch_size: 256}", "{}"),
        FLOW.replace("{hidden: 256, batch_size: 256}", "{hidden: 256,\n        batch_size: 256,  # rows\n        }"),
        "task: {candidates: {mlp: {kind: mlp}}}",
        "{}",
        BLOCK.rstrip() + "\n      # the end",
        "a: 1\n" + BLOCK.replace("        hidden: 256\n", "        hidden: &h 256\n"),
    ],
)
def test_any_layout_means_the_same_afterwards_but_for_the_values(text: str) -> None:
    changed = put(text, batch_size=512, channels_last=True)

    assert changed is not None
    edited, before = yaml.safe_load(changed), yaml.safe_load(text)
    parameters = edited["task"]["candidates"]["mlp"].pop("parameters")
    old = before.get("task", {}).get("candidates", {}).get("mlp", {}).pop("parameters", {})
    assert parameters == {**old, "batch_size": 512, "channels_last": True}
    assert "task" not in before or edited == before
    assert changed.count("#") == text.count("#")


@pytest.mark.parametrize(
    "text",
    [
        FLOW.replace("{hidden: 256, batch_size: 256}", "&shared {hidden: 256, batch_size: 256}") + "other: *shared\n",
        FLOW.replace(" {hidden: 256, batch_size: 256}", ""),
    ],
)
def test_what_cannot_be_changed_alone_is_left_to_a_person(text: str) -> None:
    assert put(text, batch_size=512) is None


def test_an_anchor_that_would_be_replaced_before_another_value_is_left_to_a_person() -> None:
    text = FLOW.replace("hidden: 256, batch_size: 256", "hidden: &h 256, batch_size: *h")

    assert put(text, hidden=512, channels_last=True) is None


def test_the_lines_for_a_person_are_those_values() -> None:
    values = {(*AT, "channels_last"): True, ("task", "trainer", "compression"): "bf16"}

    assert yaml.safe_load(edits.lines(values)) == {
        "task": {"candidates": {"mlp": {"parameters": {"channels_last": True}}}, "trainer": {"compression": "bf16"}}
    }


def test_the_shipped_configs_can_be_changed() -> None:
    texts = {name: configs.find_file(name).read_text() for name in configs.names()}
    with_network = {name: text for name, text in texts.items() if "mlp:" in text}

    assert with_network
    for text in with_network.values():
        assert yaml.safe_load(put(text, precision="bf16") or "")["task"]["candidates"]["mlp"]["parameters"]["precision"]
