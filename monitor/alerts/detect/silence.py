"""Since when a path has not answered at all, where its newest cycles are lost as a whole.

In: a snapshot. Out: the time of the last reply. The rule `unreachable` waits longer before it opens an incident; this
tells an outage from partial loss until then.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np

from monitor.alerts.detect.snapshot import Snapshot
from monitor.analysis.loss import OUTAGE_CYCLES, is_outage

COMPARED_STEPS = 2
"""Steps of the recent counts whose loss says whether a run of lost packets is chance."""


def silent_since(path_id: int, snapshot: Snapshot) -> datetime | None:
    """The last reply on a path whose newest two cycles at least were lost as a whole; the beginning of the recent
    counts without any reply in them. None while it answers, or without measurements in the newest steps."""
    row, every_s = snapshot.rows[path_id], snapshot.paths[path_id].every_s
    recent_steps = max(COMPARED_STEPS, math.ceil(OUTAGE_CYCLES * every_s / snapshot.step_s))
    sent, received = (float(snapshot.recent[name][row, :recent_steps].sum()) for name in ("sent", "received"))
    # Of this path alone: `snapshot.newest` goes through all paths, and callers ask for many.
    measured_s, answered_s = (
        float(np.fmax.reduce(snapshot.recent[name][row])) for name in ("measured_s", "answered_s")
    )
    began_s = snapshot.now.timestamp() - snapshot.recent_s
    silent_since_s = began_s if math.isnan(answered_s) else answered_s
    if not sent or not measured_s - silent_since_s >= OUTAGE_CYCLES * every_s:
        return None
    seconds = measured_s + every_s - (snapshot.now.timestamp() - recent_steps * snapshot.step_s)
    unanswered = sent if not received else min(sent * (measured_s - silent_since_s) / seconds, sent - received)
    return datetime.fromtimestamp(silent_since_s, UTC) if is_outage(sent, received, unanswered) else None
