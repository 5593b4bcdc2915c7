"""Diagnose traces, tune and scale a training, compare models' speed, and plan trainings and serving.

`nightshift perf <action>`, one file per action.
"""

import importlib
from collections.abc import Sequence

from pipelines.cli import options

# action, whose module is imported when it is named -> its help
ACTIONS = {
    "profile": "Show where the time of a GPU training goes, and which fixes save most of it.",
    "tune": "Search for the fastest training settings of a network, and write them into the config.",
    "scale": "Measure how a network's training scales over processes, and diagnose what slows it down.",
    "collectives": "Measure collectives and messages by tensor size, in nccl-tests' table and beside its figures.",
    "compare": "Compare the speed of models.",
    "plan": "Compute memory, time and cost of a training or of serving, or propose the best that fits.",
}


def add(commands: options.Commands, words: Sequence[str]) -> None:
    """Add the command, and of its actions the flags of the one that is named."""
    text = str(__doc__).partition("\n")[0]
    actions = options.add_command(commands, "perf", text).add_subparsers(required=True, metavar="action")
    for name, help_text in ACTIONS.items():
        if words[:1] == [name]:
            importlib.import_module(f"{__name__}.{name}").add(actions)
        else:
            actions.add_parser(name, help=help_text)
