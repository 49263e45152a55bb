"""Mean opinion score of a telephone call over a path, 1 to 4.5: PingER's short form of the E-model. The SQL function
`reporting.mos` gives the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats

BEST_R = 93.2
CODEC_MS = 10.0
WORST = 1.0


def mos(rtt_avg_ms: ArrayLike, ipdv_ms: ArrayLike, loss_ratio: ArrayLike) -> Floats:
    """Score of a mean RTT, IPDV and loss (0 to 1): latency and loss reduce R, which ITU-T G.107, Annex B, converts."""
    latency_ms = np.asarray(rtt_avg_ms, dtype=np.float64) + 2.0 * np.asarray(ipdv_ms, dtype=np.float64) + CODEC_MS
    delay = np.maximum(latency_ms / 40.0, (latency_ms - 120.0) / 10.0)
    r = np.clip(BEST_R - delay - 250.0 * np.asarray(loss_ratio, dtype=np.float64), 0.0, 100.0)
    # The cubic dips below 1 for R between 0 and 6.5.
    score: Floats = np.maximum(WORST, 1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r))
    return score
