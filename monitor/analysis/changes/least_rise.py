from __future__ import annotations

import numpy as np

from monitor.arrays import Floats

# The least rise as a share of the level before: the detector cannot resolve less.
LEAST_BY_RATIO_MS = 1.0


def least_rise_ms(least_ms: Floats | float, least_ratio: Floats | float, before_ms: Floats | float) -> Floats:
    """A rule's least rise above the level before, elementwise: `least_ms`, or `least_ratio` of the level if that is
    less."""
    return np.minimum(least_ms, np.maximum(least_ratio * before_ms, LEAST_BY_RATIO_MS))
