"""Since when a path has not answered at all, where its newest cycles are lost as a whole; and which have no newer data.

In: a snapshot. Out: the time of the last reply; paths. The rule `unreachable` waits longer before it opens an incident;
this tells an outage from partial loss until then.
"""

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

COMPARED_STEPS = 2
"""Steps of the recent counts whose loss says whether a run of lost packets is chance."""


def silent_since(path_id: int, snapshot: Snapshot) -> datetime | None:
    """The last reply on a path whose newest two cycles at least were lost as a whole; the first of the lost requests
    where none is known just before. None while it answers, or without measurements in the newest steps."""
    since_s = float(silent_since_s([path_id], snapshot)[0])
    return None if math.isnan(since_s) else datetime.fromtimestamp(since_s, UTC)


def silent_since_s(path_ids: Sequence[int], snapshot: Snapshot) -> NDArray[np.float64]:
    """As `silent_since` of each of these paths, in seconds since the epoch; NaN for None."""
    found = np.full(len(path_ids), np.nan)
    for number, path_id in enumerate(path_ids):
        silence = snapshot.silences.get(path_id)
        if silence is not None and _is_outage(path_id, silence, snapshot):
            found[number] = silence.since_s
    return found


def _is_outage(path_id: int, silence: Silence, snapshot: Snapshot) -> bool:
    """Whether so many requests lost in a row are no chance."""
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
    """The paths whose newest burst that counts is too old for figures of now, as the pages judge it; those without any
    in the recent counts have no data at all, and are left out."""
    ages_s = (snapshot.now.timestamp() - snapshot.newest("counted_s")).tolist()
    ages = zip(snapshot.paths.items(), ages_s, strict=True)
    return frozenset(path_id for (path_id, path), age_s in ages if age_s > fresh_s(path.every_s))
