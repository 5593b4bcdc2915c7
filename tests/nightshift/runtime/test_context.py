"""What a step's flags say is checked when it is needed, and once."""

from argparse import Namespace
from pathlib import Path

import pytest

from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from tests.components import samples
from tests.components.states import state


def test_a_flag_that_is_wrong_is_refused_when_it_is_needed() -> None:
    context = StepContext(Namespace(config="{", date="2024-02-30"))

    with pytest.raises(UserError, match="the config is not JSON"):
        _ = context.use_case
    with pytest.raises(UserError, match="2024-02-30"):
        _ = context.day


def test_a_flag_is_parsed_once(tmp_path: Path) -> None:
    context = samples.context(state=state(tmp_path))
    config, day, kept = context.config, context.day, context.state

    context.args.config = context.args.date = context.args.state = "{"

    assert (context.config, context.day, context.state) == (config, day, kept)
    assert (context.use_case, context.plan.features.last) == ("tiny", day)


def test_a_step_without_a_config_has_no_use_case_and_without_a_choice_it_runs_on_the_cpu() -> None:
    assert (StepContext(Namespace()).use_case, StepContext(Namespace()).device) == ("", "cpu")
    assert StepContext(Namespace(device="cuda")).device == "cuda"
