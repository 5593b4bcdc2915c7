"""Procedural scans of chests, drawn for all of a day's studies at once."""

from dataclasses import dataclass
from io import BytesIO

import numpy as np
import numpy.typing as npt
from PIL import Image

from nightshift_image_text.simulation import anatomy
from nightshift_image_text.simulation.studies import (
    DEVICE,
    EFFUSION,
    ENLARGED,
    FRACTURE,
    NODULE,
    SCANNERS_A_SITE,
    SITES,
    Flags,
    Floats,
    Integers,
    Studies,
)

SIDE = 64  # pixels
COARSE = 12  # points of a side between which tissue varies smoothly
TURNED = 0.82  # width of a turned view, as a share of a frontal one's
AIR, TISSUE = 0.06, 0.5  # grays, 0 to 1
MARK = np.array([[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]], bool)  # the letter L
MARK_AT = (3, 3)  # rows and columns from the corner
CHUNK = 64  # images drawn at once, whose arrays fit into a processor's cache
FAST = 1  # of zlib's levels
Grays = npt.NDArray[np.float32]
Pair = tuple[Grays | float, Grays | float]


@dataclass(frozen=True)
class Grid:
    """Where pixels are in each body, (n, side, side), see `anatomy`."""

    x: Grays
    y: Grays


@dataclass(frozen=True)
class Scanners:
    """What scanners do to grays, (scanners,); the new one is the last.

    Attributes:
        gain: factor on contrast.
        offset: brightness that is added.
        noise: standard deviation.
        blur: share of a pixel's light that its neighbors get on either side.
    """

    gain: Floats
    offset: Floats
    noise: Floats
    blur: Floats


def list_scanners() -> Scanners:
    """Return all scanners: those of a site differ little, the new one from all."""
    count = (len(SITES) + 1) * SCANNERS_A_SITE
    ramp, turns = np.linspace(0, 1, count), np.arange(count) % 3 / 2
    return Scanners(
        gain=np.append(0.8 + 0.4 * ramp, 0.6),
        offset=np.append(0.06 * turns - 0.03, 0.22),
        noise=np.append(0.03 + 0.02 * turns[::-1], 0.09),
        blur=np.append(0.12 * (1 - ramp), 0.25),
    )


def draw_scans(studies: Studies, marked: Flags, random: np.random.Generator) -> list[bytes]:
    """Draw the image of each study as a gray PNG file.

    Args:
        studies: n of them, an image each.
        marked: whether an image has a mark in its upper left corner, (n,).
        random: positions, tissue and noise.
    """
    rows = np.arange(len(studies.view))
    chunks = [rows[first : first + CHUNK] for first in range(0, len(rows), CHUNK)]
    return [file for chunk in chunks for file in _draw_files(studies.take(chunk), marked[chunk], random)]


def _draw_files(studies: Studies, marked: Flags, random: np.random.Generator) -> list[bytes]:
    grays = draw_grays(studies, random)
    top, left = MARK_AT
    corner = grays[marked, top : top + MARK.shape[0], left : left + MARK.shape[1]]
    grays[marked, top : top + MARK.shape[0], left : left + MARK.shape[1]] = np.where(MARK, 0.95, corner)
    return [encode_png(pixels) for pixels in np.clip(grays * 255, 0, 255).astype(np.uint8)]


def encode_png(pixels: npt.NDArray[np.integer]) -> bytes:
    """Return a PNG file of gray pixels, (height, width), of 8 or 16 bits."""
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=FAST)
    return buffer.getvalue()


def draw_grays(studies: Studies, random: np.random.Generator) -> Grays:
    """Draw images as their scanners give them, about 0 to 1, (n, side, side)."""
    grid = _set_grid(studies, random)
    grays = _draw_body(grid, studies)
    for draw in (_add_fractures, _add_nodules, _add_effusions, _add_devices):
        draw(grays, grid, studies)
    grays += 0.035 * _vary_tissue(len(grays), random)
    return _scan(grays, studies.scanner, random)


def _set_grid(studies: Studies, random: np.random.Generator) -> Grid:
    """Return where pixels are in bodies that stand a little aside, near or turned."""
    count = len(studies.number)
    line = np.linspace(-1, 1, SIDE, dtype=np.float32)
    aside, above, near, angle = (
        random.normal(0, deviation, count).astype(np.float32)[:, None, None] for deviation in (0.04, 0.04, 0.04, 0.04)
    )
    width = (0.88 + 0.12 * studies.bodies.width) * np.where(studies.view == 1, TURNED, 1.0)
    x, y = line[None, None, :] - aside, line[None, :, None] - above
    scale = 1 + near
    return Grid((x + angle * y) / (scale * _column(width)), (y - angle * x) / scale)


def _column(values: Floats) -> Grays:
    return values.astype(np.float32)[:, None, None]


def _edge(distance: Grays, sharpness: float = 14.0) -> Grays:
    """Return 0 outside, 1 inside and what is between at the edge of a shape; distance is positive inside."""
    edge: Grays = np.clip(distance * np.float32(sharpness) + np.float32(0.5), 0, 1)
    return edge


def _ellipse(grid: Grid, center: Pair, radii: Pair) -> Grays:
    """Return how far inside an ellipse pixels are: 1 at its center, 0 at its edge, negative outside."""
    squares = ((grid.x - center[0]) / radii[0]) ** 2 + ((grid.y - center[1]) / radii[1]) ** 2
    inside: Grays = 1 - np.sqrt(squares)
    return inside


def _lungs(grid: Grid, studies: Studies) -> Grays:
    """Return how far inside a lung pixels are."""
    height = _column(anatomy.lung_height(studies.bodies))
    sides = Grid(np.abs(grid.x), grid.y)
    return _ellipse(sides, (anatomy.LUNG, -0.1), (0.36, height))


def _draw_body(grid: Grid, studies: Studies) -> Grays:
    bodies = studies.bodies
    lungs = _edge(_lungs(grid, studies), 6)
    grays = AIR + (TISSUE - AIR) * _edge(_ellipse(grid, (0.0, 0.15), (0.97, 1.25)), 10)
    grays -= 0.3 * lungs
    bend = _column(0.16 * (bodies.spine - 0.5)) * (1 - grid.y**2)
    grays += 0.16 * np.exp(-(((grid.x - bend) / 0.09) ** 2))
    grays += 0.11 * _ribs(grid, studies) * (np.abs(grid.x) < 0.85)
    half = _column(anatomy.heart_width(bodies, studies.findings))
    heart = _edge(_ellipse(grid, (0.1 + 0.25 * (half - 0.3), 0.3), (half, 0.2 + 0.4 * half)), 7)
    alpha = np.where(studies.findings.present[:, ENLARGED], 0.75 + 0.2 * studies.findings.contrast[:, ENLARGED], 0.85)
    return grays + _column(alpha) * heart * (0.56 - grays)


def _ribs(grid: Grid, studies: Studies) -> Grays:
    """Return how bright ribs are, 0 to 1: arcs that go down to the sides."""
    density = _column(anatomy.rib_density(studies.bodies))
    turns = (grid.y + 0.15 - anatomy.BEND * grid.x**2) * density - _column(studies.bodies.phase)
    brightness: Grays = np.exp(-(((turns - np.round(turns)) / 0.2) ** 2))
    return brightness


def _add_fractures(grays: Grays, grid: Grid, studies: Studies) -> None:
    """Draw a dark gap in a rib, and bright callus around it."""
    rows = np.flatnonzero(studies.findings.present[:, FRACTURE])
    own, findings = Grid(grid.x[rows], grid.y[rows]), studies.findings.take(rows)
    x, y = map(_column, anatomy.fracture_center(studies.bodies.take(rows), findings))
    size, strength = _column(findings.size[:, FRACTURE]), _column(0.5 + 0.5 * findings.contrast[:, FRACTURE])
    across, along = own.x - x, own.y - y
    callus = np.exp(-((across / (0.12 + 0.06 * size)) ** 2) - (along / (0.1 + 0.05 * size)) ** 2)
    gap = np.exp(-(((across + 0.4 * along) / 0.05) ** 2) - (along / 0.14) ** 2)
    grays[rows] += strength * (0.28 * callus - 0.55 * gap)


def _add_nodules(grays: Grays, grid: Grid, studies: Studies) -> None:
    """Draw a bright disc in a lung."""
    rows = np.flatnonzero(studies.findings.present[:, NODULE])
    own, findings = Grid(grid.x[rows], grid.y[rows]), studies.findings.take(rows)
    x, y = map(_column, anatomy.nodule_center(studies.bodies.take(rows), findings))
    radius = _column(anatomy.nodule_radius(findings))
    disc = _edge(_ellipse(own, (x, y), (radius, radius)), 2)
    grays[rows] += _column(0.14 + 0.18 * findings.contrast[:, NODULE]) * disc


def _add_effusions(grays: Grays, grid: Grid, studies: Studies) -> None:
    """Fill a lung from its bottom; the level rises to the side."""
    rows = np.flatnonzero(studies.findings.present[:, EFFUSION])
    some, own = studies.take(rows), Grid(grid.x[rows], grid.y[rows])
    findings, height = some.findings, _column(anatomy.lung_height(some.bodies))
    side = own.x * _column(np.where(findings.is_left[:, EFFUSION], 1.0, -1.0))
    level = height * (1 - 2 * _column(anatomy.effusion_depth(findings))) - 0.1
    rise = 0.6 * np.clip(side - anatomy.LUNG, 0, 1)
    fluid = _edge(own.y - level + rise, 7) * _edge(_lungs(own, some) + 0.1, 6) * (side > 0)
    alpha = _column(0.2 + 0.5 * findings.contrast[:, EFFUSION])
    grays[rows] += alpha * fluid * (TISSUE - grays[rows])


def _add_devices(grays: Grays, grid: Grid, studies: Studies) -> None:
    """Draw a bright box with a lead to the heart."""
    rows = np.flatnonzero(studies.findings.present[:, DEVICE])
    side = _column(np.where(studies.findings.is_left[rows, DEVICE], 1.0, -1.0))
    x, y = grid.x[rows] * side - 0.45, grid.y[rows] + 0.62
    box = (np.abs(x) < 0.13) & (np.abs(y) < 0.1)
    lead = (np.abs(x + 0.3 * y) < 0.025) & (y > 0) & (y < 0.8)
    grays[rows] = np.where(box | lead, 0.95, grays[rows])


def _vary_tissue(count: int, random: np.random.Generator) -> Grays:
    """Return smooth noise of deviation about 1, (count, side, side): coarse points, and lines between them."""
    points = random.standard_normal((count, COARSE, COARSE), dtype=np.float32)
    at = np.linspace(0, COARSE - 1, SIDE)
    weights = np.maximum(0, 1 - np.abs(at[:, None] - np.arange(COARSE))).astype(np.float32)
    varied: Grays = weights @ points @ weights.T
    return varied


def _scan(grays: Grays, scanner: Integers, random: np.random.Generator) -> Grays:
    """Return grays with a scanner's blur, contrast, brightness and noise."""
    every = list_scanners()
    gain, offset, noise, blur = (_column(values[scanner]) for values in vars(every).values())
    blurred = _blur(_blur(grays, blur, 1), blur, 2)
    scanned: Grays = (blurred - 0.35) * gain + 0.35 + offset
    scanned += noise * random.standard_normal(grays.shape, dtype=np.float32)
    return scanned


def _blur(grays: Grays, share: Grays, axis: int) -> Grays:
    """Return grays of which neighbors along an axis get a share on either side."""
    size = grays.shape[axis]
    before, after = np.maximum(np.arange(size) - 1, 0), np.minimum(np.arange(size) + 1, size - 1)
    blurred: Grays = grays * (1 - 2 * share) + share * (np.take(grays, before, axis) + np.take(grays, after, axis))
    return blurred
