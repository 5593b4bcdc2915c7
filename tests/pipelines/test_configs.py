"""The shipped configs, as an editor and an engine's clock see them."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from pipelines import configs

SHIPPED = [configs.find_file(name) for name in configs.names()]


def schema_of(path: Path) -> dict[str, object]:
    """The schema that the first line of a config names to editors."""
    mark, _, schema = path.read_text().splitlines()[0].partition("$schema=")
    assert mark == "# yaml-language-server: "
    return json.loads((path.parent / schema).read_text())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_config_is_valid_by_the_schema_its_first_line_names(path: Path) -> None:
    jsonschema.validate(yaml.safe_load(path.read_text()), schema_of(path))


def test_the_schema_refuses_what_no_config_has() -> None:
    with pytest.raises(jsonschema.ValidationError, match="'trainig' was unexpected"):
        jsonschema.validate(configs.load("fraud") | {"schedule": {"trainig": "0 2 * * *"}}, configs.schema())


def test_training_has_no_clock_where_a_request_starts_it() -> None:
    config = configs.load("fraud")
    requested = config | {"controller": config["controller"] | {"retrain": "on_drift"}}

    usual = {"ingestion": "0 1 * * *", "training": "0 2 * * *", "monitoring": "0 6 * * *", "release": None}
    assert configs.clocks(config) == usual
    assert configs.clocks(requested) == usual | {"training": None}
    assert configs.clocks(config | {"release": {"gradual": True}}) == usual | {"release": "0 7 * * *"}
