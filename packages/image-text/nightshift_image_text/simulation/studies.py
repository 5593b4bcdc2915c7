"""What is true of a day's studies: who is examined, on which scanner, and what there is to find."""

from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nightshift_image_text.config import ImageTextSimulator

# the purpose of a stream of random numbers
STUDIES, PATIENT, PIXELS, WORDS, TIMES, CORRUPTION = range(6)
FINDINGS = ("effusion", "enlarged", "fracture", "nodule")
UNSEEN = "device"  # shown from drift_from on, by new_class
SHOWN = (*FINDINGS, UNSEEN)
EFFUSION, ENLARGED, FRACTURE, NODULE, DEVICE = range(len(SHOWN))
SITES = ("Harbor", "Hillside", "Riverside")
NEW_SITE = "Lakeside"
SCANNERS_A_SITE = 2
NEW_SCANNER = "Nova"
SITE_PREVALENCE = (0.7, 1.0, 1.3, 1.0)  # factor on the prevalence of findings, the new site's last
TRAITS = ("width", "lungs", "heart", "spine", "ribs", "phase")  # of a body
RISKS = (0.4, 1.6)  # least and largest factor of a patient's own
MOST = 0.95  # chance of a finding
AWAY = 0.05  # share of studies at another site than the patient's

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Arrays:
    """Arrays of as many rows each."""

    def take(self, rows: Integers) -> Self:
        """Return some rows of each array."""
        kept = {name: held.take(rows) if isinstance(held, Arrays) else held[rows] for name, held in vars(self).items()}
        return replace(self, **kept)


@dataclass(frozen=True)
class Bodies(Arrays):
    """The habitus of patients, (n,); shares of a range from 0 to 1 but `risk`.

    Attributes:
        width: of the chest.
        lungs: their volume.
        heart: its size without a finding.
        spine: its bend, from right to left.
        ribs: their spacing.
        phase: height of the first rib.
        risk: factor on the chance of each finding, (n, 5).
    """

    width: Floats
    lungs: Floats
    heart: Floats
    spine: Floats
    ribs: Floats
    phase: Floats
    risk: Floats


@dataclass(frozen=True)
class Findings(Arrays):
    """What there is to find in studies, a column for each of `SHOWN`: (n, 5).

    Attributes:
        present: whether it is there.
        is_left: whether it is on the patient's left, which is on the right of an image.
        size: from small to large, 0 to 1.
        height: from top to bottom, 0 to 1.
        across: from the middle to the side, 0 to 1.
        contrast: how plainly it shows, 0 to 1.
    """

    present: Flags
    is_left: Flags
    size: Floats
    height: Floats
    across: Floats
    contrast: Floats


@dataclass(frozen=True)
class Studies(Arrays):
    """Studies of a day, (n,).

    Attributes:
        number: within the day.
        patient: number of a patient.
        site: number of `SITES`; `len(SITES)` is the new one.
        scanner: number within all sites' scanners; the one after the last is the new one.
        view: 0 is frontal, 1 turned.
        bodies: the patients' habitus.
        findings: what there is to find.
    """

    number: Integers
    patient: Integers
    site: Integers
    scanner: Integers
    view: Integers
    bodies: Bodies
    findings: Findings

    def labels(self) -> list[list[str]]:
        """Return the findings of each."""
        return [[name for name, there in zip(SHOWN, row, strict=True) if there] for row in self.findings.present]


def make_random(config: ImageTextSimulator, stream: int, number: int) -> np.random.Generator:
    """Return the random numbers of a purpose on a day, or of a patient."""
    return np.random.default_rng([config.seed, stream, number])


def draw_studies(config: ImageTextSimulator, on: date) -> Studies:
    """Draw as many studies as have a day's images, a row an image."""
    drifts, random = config.drifts(on), make_random(config, STUDIES, on.toordinal())
    images = max(1, round(config.items * (config.volume_factor if drifts else 1.0)))
    views = 1 + (random.random(images) < config.several_images)
    number = np.repeat(np.arange(images), views)[:images]
    view = np.arange(images) - np.searchsorted(number, number)
    patient = random.integers(0, config.patients, images)
    site, scanner = _draw_places(config, patient, drifts, random)
    bodies = draw_bodies(config, patient)
    chance = config.label_share * np.array(SITE_PREVALENCE)[site, None] * bodies.risk
    chance *= config.prevalence_factor if drifts else 1.0
    chance[:, DEVICE] = config.new_class if drifts else 0.0
    findings = _draw_findings(np.minimum(chance, MOST), random)
    whole = Studies(np.arange(images), patient, site, scanner, np.zeros(images, int), bodies, findings)
    return replace(whole.take(number), view=view)


def draw_bodies(config: ImageTextSimulator, patients: Integers) -> Bodies:
    """Draw the habitus of patients, the same one on every day."""
    size = len(TRAITS) + len(SHOWN)
    drawn = np.array([make_random(config, PATIENT, number).random(size) for number in patients.tolist()])
    traits: dict[str, Floats] = dict(zip(TRAITS, drawn.T, strict=False))
    least, largest = RISKS
    return Bodies(**traits, risk=least + (largest - least) * drawn[:, len(TRAITS) :])


def _draw_places(
    config: ImageTextSimulator, patient: Integers, drifts: bool, random: np.random.Generator
) -> tuple[Integers, Integers]:
    """Return site and scanner of each study: patients nearly always go to the same site."""
    count = len(patient)
    site = np.where(random.random(count) < AWAY, random.integers(0, len(SITES), count), patient % len(SITES))
    new_site, new_scanner = random.random((2, count)) < [[config.new_site], [config.new_scanner]]
    scanner = random.integers(0, SCANNERS_A_SITE, count)
    site = np.where(new_site & drifts, len(SITES), site)
    last = (len(SITES) + 1) * SCANNERS_A_SITE
    return site, np.where(new_scanner & drifts, last, site * SCANNERS_A_SITE + scanner)


def _draw_findings(chance: Floats, random: np.random.Generator) -> Findings:
    shape = chance.shape
    present, is_left = random.random(shape) < chance, random.random(shape) < 0.5
    drawn: Any = random.random((4, *shape))
    return Findings(present, is_left, *drawn)


def name_scanner(number: int) -> str:
    """Return what a scanner is called."""
    if number == (len(SITES) + 1) * SCANNERS_A_SITE:
        return NEW_SCANNER
    site, own = divmod(number, SCANNERS_A_SITE)
    return f"{(*SITES, NEW_SITE)[site]} {own + 1}"
