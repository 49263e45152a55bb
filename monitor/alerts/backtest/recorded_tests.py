"""Throughput tests and request-response runs of a recorded source, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from monitor.archive.queries.for_alerts import Columns
from monitor.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class MeasuredTests:
    """Columns with an entry per throughput test."""

    path_id: Ints
    at_s: Floats
    throughput_bps: Floats


@dataclass(frozen=True, slots=True)
class MeasuredResponses:
    """Columns with an entry per request-response run, of equal block sizes."""

    path_id: Ints
    at_s: Floats
    median_ms: Floats
    p95_ms: Floats


NO_TESTS = MeasuredTests(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))
NO_RESPONSES = MeasuredResponses(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), np.zeros(0))


def newest_of(
    tests: MeasuredTests | MeasuredResponses, path_ids: Sequence[int], since: datetime, until: datetime, most: int
) -> tuple[Ints, Columns]:
    """Select the newest tests of each path in the period: their places, and `path_id`, `place` and `at_s`."""
    selected = np.flatnonzero(
        np.isin(tests.path_id, path_ids) & (tests.at_s >= since.timestamp()) & (tests.at_s < until.timestamp())
    )
    order = selected[np.lexsort((-tests.at_s[selected], tests.path_id[selected]))]
    _, firsts, counts = np.unique(tests.path_id[order], return_index=True, return_counts=True)
    place = np.arange(len(order)) - np.repeat(firsts, counts)
    kept = order[place < most]
    columns = {
        "path_id": tests.path_id[kept].astype(np.float64),
        "place": place[place < most].astype(np.float64),
        "at_s": tests.at_s[kept],
    }
    return kept, columns
