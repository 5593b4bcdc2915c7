"""Every shipped use case for other people's data, through the command line, on small data of its kind."""

import zlib
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.common import storage
from components.common.config import parse
from components.common.splits import plan
from pipelines import configs
from tests.e2e.command import newest, nightshift
from tests.e2e.other_data import MAKE

pytestmark = pytest.mark.slow

DATE = date(2025, 6, 30)
SAYS = {
    "payments": [
        "Precision at 20 is the share of positives among the 20 values of Account with the highest scores",
        "Country: ",
        "are none of the model&#39;s 3 categories",
    ],
    "machine-failure": [
        "Precision at 5 is the share of positives among the 5 values of machine_id with the highest scores",
        "nothing was learned from: pressure_bar",
    ],
    "leads": [
        "Precision at 10 is the share of positives among the 10 events with the highest scores",
        "2 of 14 test days hold no positive, the first is 2025-06-08",
    ],
}
# what only card fraud has, apart from the names of the pipeline, of metrics and of settings
WORDS = ("fraud", "suspicious", "transaction", " card ", " cards", "Card precision", "compromised customers")


@pytest.fixture(scope="module", params=sorted(MAKE))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, dict[str, Any]]:
    """A use case, its workspace after one run, and the run's summary."""
    name: str = request.param
    workspace = tmp_path_factory.mktemp(name)
    raw = workspace / "raw"
    raw.mkdir()
    days = plan(parse(configs.load(name)), DATE).events
    MAKE[name](raw, days, np.random.default_rng(zlib.crc32(name.encode())))
    words = ("--config", name, "--data", str(raw), "--date", str(DATE), "--target", "register-only")
    nightshift(workspace, "run", *words)
    return name, workspace, newest(workspace)


def test_the_run_succeeds_and_finds_the_signal(case: tuple[str, Path, dict[str, Any]]) -> None:
    _, _, summary = case
    best = summary["models"][summary["selected"]]
    chance = summary["rows"]["test_positives"] / summary["rows"]["test"]
    assert summary["status"] == "succeeded"
    assert summary["verdicts"]["deployment"]["decision"] == "promoted"
    assert best["auc_roc"] > 0.7
    assert best["average_precision"] > 2 * chance


def test_the_report_and_the_card_say_what_is_to_be_known_in_words_that_fit(
    case: tuple[str, Path, dict[str, Any]],
) -> None:
    name, workspace, summary = case
    report = (workspace / "runs/latest/report.html").read_text()
    card = storage.read_bytes(summary["links"]["model_card"]).decode()
    for text in SAYS[name]:
        assert text in report
    for word in WORDS:
        assert word not in report + card, word
