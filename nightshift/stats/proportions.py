"""How sure a share is, of independent yes and no: Wilson's interval (1927), which is right for few and for none."""

import math

from nightshift.stats.bootstrap import BootstrapInterval

DEVIATIONS = 1.959964  # standard deviations of 95 %


def wilson_interval(count: int, total: int) -> BootstrapInterval:
    """Return the 95 % interval of a share.

    Args:
        count: of yes.
        total: of all, at least 1.
    """
    share, square = count / total, DEVIATIONS**2 / total
    center = (share + square / 2) / (1 + square)
    half = DEVIATIONS * math.sqrt(share * (1 - share) / total + square / (4 * total)) / (1 + square)
    return BootstrapInterval(max(0.0, center - half), min(1.0, center + half))
