"""Where things are in a body: what scans draw and reports measure, in half a body's width and height from its middle.

x is -1 at the patient's right and 1 at the left, y is -1 at the top and 1 at the bottom.
"""

import numpy as np

from nightshift_image_text.simulation.studies import EFFUSION, ENLARGED, FRACTURE, NODULE, Bodies, Findings, Floats

CHEST = 0.78  # half the width inside the ribs
LUNG = 0.42  # x of a lung's middle
BEND = 0.45  # by which a rib's y grows with the square of x
MILLIMETERS = 110.0  # of half a chest's width
FIRST_RIB, RIBS = 3, 6  # the highest of the ribs that break, and how many they are


def heart_width(bodies: Bodies, findings: Findings) -> Floats:
    """Return half the heart's width, (n,)."""
    normal = 0.28 + 0.07 * bodies.heart
    grown = 0.355 + 0.17 * findings.size[:, ENLARGED]
    return np.where(findings.present[:, ENLARGED], grown, normal)


def cardiothoracic_ratio(bodies: Bodies, findings: Findings) -> Floats:
    """Return the heart's width as a share of the chest's, (n,)."""
    return heart_width(bodies, findings) / CHEST


def lung_height(bodies: Bodies) -> Floats:
    """Return half a lung's height, (n,)."""
    return 0.55 + 0.2 * bodies.lungs


def rib_density(bodies: Bodies) -> Floats:
    """Return ribs in half a body's height, (n,)."""
    return 4.0 + bodies.ribs


def nodule_radius(findings: Findings) -> Floats:
    """Return half the width of nodules, (n,)."""
    return 0.07 + 0.1 * findings.size[:, NODULE]


def nodule_millimeters(findings: Findings) -> Floats:
    """Return the width of nodules in mm, (n,)."""
    return 2 * MILLIMETERS * nodule_radius(findings)


def nodule_center(bodies: Bodies, findings: Findings) -> tuple[Floats, Floats]:
    """Return x and y of nodules, (n,) each."""
    x = LUNG + 0.26 * (findings.across[:, NODULE] - 0.5)
    y = lung_height(bodies) * (1.3 * findings.height[:, NODULE] - 0.75)
    return np.where(findings.is_left[:, NODULE], x, -x), y


def effusion_depth(findings: Findings) -> Floats:
    """Return the share of a lung's height that an effusion fills, (n,)."""
    return 0.08 + 0.34 * findings.size[:, EFFUSION]


def fractured_rib(findings: Findings) -> Floats:
    """Return the number of the rib that is broken, (n,)."""
    number: Floats = FIRST_RIB + np.floor(RIBS * findings.height[:, FRACTURE])
    return number


def fracture_center(bodies: Bodies, findings: Findings) -> tuple[Floats, Floats]:
    """Return x and y of fractures, (n,) each; a rib runs where `BEND` says."""
    x = 0.35 + 0.25 * findings.across[:, FRACTURE]
    number = fractured_rib(findings) - FIRST_RIB - RIBS // 2
    y = (number + bodies.phase) / rib_density(bodies) + BEND * x**2 - 0.15
    return np.where(findings.is_left[:, FRACTURE], x, -x), y
