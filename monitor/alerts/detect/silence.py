"""Since when a path has not answered, before the rule `unreachable` fires; and paths without newer data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.past.silences import Silence
from monitor.alerts.detect.snapshot import Snapshot
from monitor.analysis.loss import OUTAGE_CYCLES, is_outage
from monitor.archive.queries.recent import fresh_s

# Steps of the recent counts, their loss says whether a run of lost packets is chance.
COMPARED_STEPS = 2


def silent_since(path_id: int, snapshot: Snapshot) -> datetime | None:
    """Last reply, or first lost request, of a path with two lost cycles; None while it answers or is unknown."""
    since_s = float(silent_since_s([path_id], snapshot)[0])
    return None if math.isnan(since_s) else datetime.fromtimestamp(since_s, UTC)


def silent_since_s(path_ids: Sequence[int], snapshot: Snapshot) -> NDArray[np.float64]:
    """As `silent_since` of each path, in seconds since the epoch; NaN for None."""
    found = np.full(len(path_ids), np.nan)
    for number, path_id in enumerate(path_ids):
        silence = snapshot.silences.get(path_id)
        if silence is not None and _is_outage(path_id, silence, snapshot):
            found[number] = silence.since_s
    return found


def _is_outage(path_id: int, silence: Silence, snapshot: Snapshot) -> bool:
    every_s, silent_s = snapshot.paths[path_id].every_s, silence.until_s - silence.since_s
    if silence.cycles < OUTAGE_CYCLES or silent_s < OUTAGE_CYCLES * every_s:
        return False
    steps = max(COMPARED_STEPS, math.ceil(OUTAGE_CYCLES * every_s / snapshot.step_s))
    counts = (snapshot.recent[name][snapshot.rows[path_id], :steps] for name in ("sent", "received"))
    sent, received = (float(of_steps.sum()) for of_steps in counts)
    seconds = silence.until_s + every_s - (snapshot.now.timestamp() - steps * snapshot.step_s)
    unanswered = sent if not received else min(sent * silent_s / seconds, sent - received)
    return bool(sent) and is_outage(sent, received, unanswered)


def paths_without_newer_data(snapshot: Snapshot) -> frozenset[int]:
    """Paths with an outdated newest burst; paths without any recent burst are left out."""
    ages_s = (snapshot.now.timestamp() - snapshot.newest("counted_s")).tolist()
    ages = zip(snapshot.paths.items(), ages_s, strict=True)
    return frozenset(path_id for (path_id, path), age_s in ages if age_s > fresh_s(path.every_s))
