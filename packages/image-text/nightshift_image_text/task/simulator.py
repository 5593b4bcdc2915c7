"""Images with reports to begin with: procedural scans, templated reports, by day.

As in `nightshift/tasks/tabular/simulator.py`, any day can be made alone and equals that day of any longer run.
"""

from datetime import date

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.tasks.base import ingestion as base
from nightshift_image_text.config import ImageTextSimulator
from nightshift_image_text.simulation import corruption, scans
from nightshift_image_text.simulation.reports import write_reports
from nightshift_image_text.simulation.studies import (
    FRACTURE,
    NEW_SITE,
    PIXELS,
    SITES,
    TIMES,
    WORDS,
    Flags,
    Studies,
    draw_studies,
    make_random,
    name_scanner,
)

DAY = 86_400  # seconds
IDS_A_DAY = 10**9  # more rows than any day has, so that ids differ between days
MINUTE = 60  # seconds from a study's first image to its second


class SimulationTask(base.SimulationTask):
    """Scans of chests with what radiologists say of them."""

    columns = ("image_id", "time", "image", "report", "patient", "study", "scanner", "site", "findings")

    def day(self, config: ImageTextSimulator, on: date, labels_due: date | None = None) -> pd.DataFrame:
        studies = draw_studies(config, on)
        count, number, first = len(studies.view), studies.number, on.toordinal() * IDS_A_DAY
        labels = studies.labels() if labels_due is None or config.labels_arrived(on, labels_due) else [None] * count
        random = make_random(config, PIXELS, on.toordinal())
        frame = pd.DataFrame(
            {
                "time": _draw_times(config, on, studies),
                "image": pd.Series(scans.draw_scans(studies, _mark(config, on, studies, random), random), dtype=object),
                "report": pd.Series(_report(config, on, studies), dtype=object),
                "patient": studies.patient,
                "study": first + number,
                "scanner": [name_scanner(scanner) for scanner in studies.scanner.tolist()],
                "site": np.array([*SITES, NEW_SITE], object)[studies.site],
                "findings": pd.Series(labels, dtype=object),
            }
        )
        # another study may begin within the minute
        frame = frame.sort_values("time", kind="stable", ignore_index=True)
        frame.insert(0, "image_id", first + np.arange(count))
        return corruption.corrupt(frame, config, on) if config.corrupt_share else frame


def _draw_times(config: ImageTextSimulator, on: date, studies: Studies) -> npt.NDArray[np.datetime64]:
    """Return when images were made: studies in order, the second image of one a minute after its first."""
    seconds = np.sort(make_random(config, TIMES, on.toordinal()).integers(0, DAY - MINUTE, studies.number[-1] + 1))
    times: npt.NDArray[np.datetime64] = np.datetime64(on, "us") + seconds[studies.number].astype("timedelta64[s]")
    times += (MINUTE * studies.view).astype("timedelta64[s]")
    return times


def _mark(config: ImageTextSimulator, on: date, studies: Studies, random: np.random.Generator) -> Flags:
    """Return which images have a mark: some of those with a fracture, and after `shortcut_until` some of all."""
    drawn = random.random(len(studies.view))
    if config.shortcut_leaks(on):
        return studies.findings.present[:, FRACTURE] & (drawn < config.shortcut)
    return drawn < config.shortcut / 2


def _report(config: ImageTextSimulator, on: date, studies: Studies) -> list[str]:
    """Return the report of each image: that of its study."""
    random = make_random(config, WORDS, on.toordinal())
    count = int(studies.number[-1]) + 1
    last = np.searchsorted(studies.number, np.arange(count), "right") - 1
    is_new = random.random(count) < (config.new_wording if config.drifts(on) else 0.0)
    reports = write_reports(studies.take(last), is_new, random)
    return [reports[number] for number in studies.number.tolist()]
