"""Packets of other paths with and without a test's load: latency under load of all who share a link.

Returns counts and RTTs of each path and packet size. Agents mark the packets sent during our own tests
(`probes.packets.burst_counts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np

from monitor.analysis.aggregate import PacketFigures
from monitor.analysis.summaries import grouped_quantiles
from monitor.archive.columns import nullable
from monitor.archive.round_trips import unpack_groups
from monitor.archive.statements import check_raw_period, run_statement

# Time before a test from which packets without load are compared.
REST = timedelta(hours=1)
SHARES = (0.5, 0.95)


def packets_beside(
    path_ids: Sequence[int], since: datetime, until: datetime, rest_since: datetime
) -> dict[tuple[int, int], tuple[PacketFigures, PacketFigures]]:
    """Packets under load and at rest, by path and size, if any under load. Raises `ValueError` for more than a day."""
    check_raw_period(rest_since, until)
    parameters = {"path_ids": list(path_ids), "since": since, "until": until, "rest_since": rest_since}
    _, rows = run_statement("harm_of_load", **parameters)
    if not rows:
        return {}
    group, packets, rtts_ms = unpack_groups([row[3] for row in rows], [row[4] for row in rows])
    answered = (~np.isnan(rtts_ms)).sum(axis=1)
    sent, received = (
        np.bincount(group, weights=counts, minlength=len(rows)).astype(int) for counts in (packets, answered)
    )
    quantiles = grouped_quantiles(np.repeat(group, rtts_ms.shape[1]), rtts_ms.ravel(), len(rows), SHARES)
    columns = (sent.tolist(), received.tolist(), *map(nullable, quantiles))
    figures = {row[:3]: PacketFigures(*values) for row, *values in zip(rows, *columns, strict=True)}
    nothing = PacketFigures(0, 0, None, None)
    return {
        (path_id, size): (loaded, figures.get((path_id, size, False), nothing))
        for (path_id, size, is_loaded), loaded in figures.items()
        if is_loaded and loaded.sent
    }
