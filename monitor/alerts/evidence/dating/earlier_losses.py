"""When an earlier loss of a path ended, which was no incident, by all packets that cross its links.

In: a finding of loss, raw bursts and STAMP packets of its path and of the reverse path, and the time in which the onset
may be. Out: the first burst after the end of the earlier loss. Pings of both paths and STAMP packets cross both
directions: one path alone has often too few packets for a proof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.models import IncidentPath
from monitor.analysis.changes.earlier_loss import end_of_earlier
from monitor.archive.queries.around import BurstColumns

Floats = NDArray[np.float64]


def after_earlier_loss(
    row: IncidentPath,
    path_ids: Sequence[int],
    bursts: BurstColumns,
    stamp: Mapping[str, Floats],
    since: datetime,
    until: datetime,
) -> datetime:
    """The first burst of the pair of paths after the end of an earlier loss in this time; `since` without any. `stamp`
    are the columns of `newest_directions`."""
    since_s, until_s = since.timestamp(), until.timestamp()
    is_near = np.isin(bursts.path_id, path_ids) & (bursts.at_s >= since_s) & (bursts.at_s < until_s)
    pings = bursts.where(is_near & (bursts.during_test == 0) & (bursts.sent > 0))
    if not (pings.received < pings.sent).any():
        return since
    is_own = np.isin(stamp["path_id"], path_ids) & (stamp["at_s"] >= since_s) & (stamp["at_s"] < until_s)
    at_s = np.concatenate([pings.at_s, stamp["at_s"][is_own]])
    sent = np.concatenate([pings.sent, stamp["forward_sent"][is_own]])
    received = np.concatenate([pings.received, stamp["reverse_received"][is_own]])
    order = np.argsort(at_s, kind="stable")
    first = end_of_earlier(sent[order], received[order], row.figures.get("threshold_ratio"))
    return datetime.fromtimestamp(float(at_s[order][first]), UTC) if first else since
