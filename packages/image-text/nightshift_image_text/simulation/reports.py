"""Templated reports: what is found with its side, size and place, what is not, and what the body is like."""

from dataclasses import dataclass

import numpy as np

from nightshift_image_text.simulation import anatomy
from nightshift_image_text.simulation.studies import (
    DEVICE,
    EFFUSION,
    ENLARGED,
    FRACTURE,
    NODULE,
    SITES,
    Flags,
    Floats,
    Integers,
    Studies,
)

# five wordings of each sentence: those of the sites, the new site's, and the new one
Wordings = tuple[str, str, str, str, str]
Traits = tuple[Wordings, Wordings, Wordings]  # of the least, the middle and the largest third
NEW_WORDING = 4
OWN = 0.6  # share of sentences worded as the site words them, where it is no new one; others as any site does
NEGATED, DESCRIBED = 0.55, 0.7  # shares of absent findings, and of traits of a body, that get a sentence
DRAWS = 40  # random numbers, more than a report takes
SIDES = ("right", "left")
ZONES = ("upper", "middle", "lower")
GRADES = ("small", "moderate", "large")
DEGREES = ("mildly", "moderately", "severely")
BREAKS = ("hairline", "nondisplaced", "displaced")
ORDINALS = ("third", "fourth", "fifth", "sixth", "seventh", "eighth")

PRESENT: dict[int, Wordings] = {
    ENLARGED: (
        "The heart is {degree} enlarged, with a cardiothoracic ratio of {ratio}.",
        "Cardiomegaly, CTR {ratio}.",
        "{degree} enlarged cardiac silhouette, ratio {ratio}.",
        "Enlarged heart, {degree} so, index {ratio}.",
        "The cardiac shadow is {degree} widened and takes {ratio} of the chest.",
    ),
    EFFUSION: (
        "There is a {grade} pleural effusion on the {side}.",
        "{grade} {side} effusion.",
        "Blunting of the {side} costophrenic angle by a {grade} effusion.",
        "Effusion {side}, {grade} amount.",
        "Fluid layers in the {side} pleural space, {grade} in volume.",
    ),
    FRACTURE: (
        "There is a {break} fracture of the {side} {ordinal} rib.",
        "{side} {ordinal} rib fracture, {break}.",
        "The {side} {ordinal} rib shows a {break} fracture.",
        "Fracture, {break}, {ordinal} rib {side}.",
        "The cortex of the {side} {ordinal} rib is interrupted, {break}.",
    ),
    NODULE: (
        "There is a {mm} mm nodule in the {side} {zone} zone.",
        "{side} {zone} zone nodule, {mm} mm.",
        "A nodule of {mm} mm projects over the {side} {zone} lung.",
        "Nodule {mm} mm, {zone} field {side}.",
        "A round density of {mm} mm lies in the {side} {zone} lung.",
    ),
    DEVICE: (
        "A pacemaker is in place on the {side}.",
        "{side} pacemaker.",
        "Pacemaker with its lead from the {side}.",
        "Pacemaker {side}.",
        "A pulse generator lies below the {side} collarbone.",
    ),
}
ABSENT: dict[int, Wordings] = {
    ENLARGED: ("cardiomegaly", "cardiomegaly", "enlarged heart", "enlarged heart", "widening of the cardiac shadow"),
    EFFUSION: ("pleural effusion", "effusion", "pleural effusion", "effusion", "pleural fluid"),
    FRACTURE: ("fracture", "rib fracture", "acute fracture", "fracture", "interrupted cortex"),
    NODULE: ("nodule", "pulmonary nodule", "suspicious nodule", "nodule", "round density"),
}
NEGATION: Wordings = (
    "There is no {absent}.",
    "No {absent}.",
    "Without {absent}.",
    "{absent}: none.",
    "Not seen: {absent}.",
)
HEART: Wordings = (
    "Heart size is normal, cardiothoracic ratio {ratio}.",
    "Heart normal, CTR {ratio}.",
    "Normal cardiac silhouette, ratio {ratio}.",
    "Heart not large, index {ratio}.",
    "The cardiac shadow takes {ratio} of the chest.",
)
LUNGS: Traits = (
    ("Lung volumes are low.", "Low volumes.", "Shallow inspiration.", "Poor inspiration.", "The lungs are small."),
    (
        "Lung volumes are normal.",
        "Normal volumes.",
        "Good inspiration.",
        "Fair inspiration.",
        "The lungs are expanded.",
    ),
    (
        "The lungs are hyperinflated.",
        "Hyperinflated.",
        "Deep inspiration.",
        "Large lungs.",
        "The lungs are wide.",
    ),
)
SPINE: Traits = (
    (
        "The spine curves to the right.",
        "Scoliosis convex right.",
        "Curve of the spine to the right.",
        "Spine bent right.",
        "The vertebral column leans right.",
    ),
    (
        "The spine is straight.",
        "Spine straight.",
        "Regular alignment of the spine.",
        "No scoliosis.",
        "The vertebral column is upright.",
    ),
    (
        "The spine curves to the left.",
        "Scoliosis convex left.",
        "Curve of the spine to the left.",
        "Spine bent left.",
        "The vertebral column leans left.",
    ),
)
CHEST: Traits = (
    ("The chest is slender.", "Slender habitus.", "Narrow thorax.", "Thin patient.", "The rib cage is narrow."),
    (
        "The chest is of average build.",
        "Average habitus.",
        "Thorax unremarkable.",
        "Average.",
        "The rib cage is regular.",
    ),
    ("The chest is broad.", "Broad habitus.", "Wide thorax.", "Large patient.", "The rib cage is wide."),
)
VIEWS: tuple[Wordings, Wordings] = (
    ("Frontal view of the chest.", "Chest, one view.", "Radiograph of the chest.", "Chest PA.", "Single projection."),
    ("Two views of the chest.", "Chest, two views.", "Radiographs of the chest.", "Chest, 2 x.", "Two projections."),
)


@dataclass
class Author:
    """Who words a report.

    Attributes:
        site: the number of the site, by which most sentences are worded.
        is_new: whether all are worded as nobody has before.
        draws: random numbers from 0 to 1, taken from the end.
    """

    site: int
    is_new: bool
    draws: list[float]

    def happens(self, share: float) -> bool:
        """Return whether something does that happens in a share of cases."""
        return self.draws.pop() < share

    def word(self, wordings: Wordings) -> str:
        """Return one wording of a sentence."""
        is_own, other = self.happens(OWN), int(self.draws.pop() * len(SITES))
        if self.is_new:
            return wordings[NEW_WORDING]
        return wordings[self.site if is_own or self.site == len(SITES) else other]

    def arrange(self, sentences: list[str]) -> list[str]:
        """Return sentences in another order."""
        keys = [self.draws.pop() for _ in sentences]
        return [sentence for _, sentence in sorted(zip(keys, sentences, strict=True))]


def write_reports(studies: Studies, is_new: Flags, random: np.random.Generator) -> list[str]:
    """Write a report of each study.

    Args:
        studies: n of them, a row each; `view` is that of the last image.
        is_new: whether a report is worded as none has been before, (n,).
        random: the choice of wordings, and what is worth a sentence.
    """
    draws = random.random((len(studies.view), DRAWS)).tolist()
    authors = [Author(*own) for own in zip(studies.site.tolist(), is_new.tolist(), draws, strict=True)]
    rows = zip(authors, studies.view.tolist(), _tell_findings(studies), _tell_traits(studies), strict=True)
    return [_write(*row) for row in rows]


def _write(author: Author, view: int, findings: dict[int, dict[str, str]], traits: list[tuple[Wordings, float]]) -> str:
    sentences = [author.word(PRESENT[finding]).format(**details) for finding, details in findings.items()]
    absent = [author.word(ABSENT[finding]) for finding in ABSENT if finding not in findings and author.happens(NEGATED)]
    if absent:
        sentences.append(author.word(NEGATION).format(absent=_enumerate(absent)))
    sentences += [
        author.word(wordings).format(ratio=f"{ratio:.2f}") for wordings, ratio in traits if author.happens(DESCRIBED)
    ]
    arranged = [author.word(VIEWS[view]), *author.arrange(sentences)]
    return " ".join(sentence[0].upper() + sentence[1:] for sentence in arranged)


def _enumerate(names: list[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _tell_findings(studies: Studies) -> list[dict[int, dict[str, str]]]:
    """Return for each study, finding -> what fills the gaps of its sentences."""
    findings = studies.findings
    third, sides = _thirds(findings.size), np.where(findings.is_left, SIDES[1], SIDES[0])
    details = {
        "degree": np.array(DEGREES)[third[:, ENLARGED]],
        "grade": np.array(GRADES)[third[:, EFFUSION]],
        "break": np.array(BREAKS)[third[:, FRACTURE]],
        "ordinal": np.array(ORDINALS)[anatomy.fractured_rib(findings).astype(int) - anatomy.FIRST_RIB],
        "mm": anatomy.nodule_millimeters(findings).round().astype(int),
        "zone": np.array(ZONES)[_thirds(findings.height[:, NODULE])],
        "ratio": [f"{ratio:.2f}" for ratio in anatomy.cardiothoracic_ratio(studies.bodies, findings)],
    }
    filled = zip(*(map(str, column) for column in details.values()), strict=True)
    rows = zip(filled, sides.tolist(), findings.present.tolist(), strict=True)
    return [
        {number: dict(zip(details, row, strict=True), side=own[number]) for number in PRESENT if there[number]}
        for row, own, there in rows
    ]


def _tell_traits(studies: Studies) -> list[list[tuple[Wordings, float]]]:
    """Return sentences of each study's body, and the heart's measure, which one of them has."""
    bodies, ratio = studies.bodies, anatomy.cardiothoracic_ratio(studies.bodies, studies.findings)
    thirds = _thirds(np.column_stack([bodies.lungs, bodies.spine, bodies.width]))
    rows = zip(thirds.tolist(), studies.findings.present[:, ENLARGED], ratio.tolist(), strict=True)
    return [
        [(wordings, own) for wordings in (*_traits(third), *(() if is_enlarged else (HEART,)))]
        for third, is_enlarged, own in rows
    ]


def _traits(thirds: list[int]) -> tuple[Wordings, ...]:
    return tuple(trait[third] for trait, third in zip((LUNGS, SPINE, CHEST), thirds, strict=True))


def _thirds(shares: Floats) -> Integers:
    """Return which third of 0 to 1 each share is in."""
    return np.minimum(3 * shares, 2).astype(int)
