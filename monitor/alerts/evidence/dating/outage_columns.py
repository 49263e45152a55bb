"""The bursts of a path cut at the begin and the end of an outage, so that each packet counts where it was sent.

In: raw bursts of a path, the spacing of its packets, and the onset of the incident. Out: the same packets, in bursts of
which none reaches from before the outage into it, nor from it to the time after; and when the path's own outage began.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.packet_times import SAME_S, Spacing, longest_run, packets_of
from monitor.alerts.evidence import episode
from monitor.alerts.evidence.facts import Beginning
from monitor.analysis.loss import LEAST_UNANSWERED
from monitor.archive.queries.around import BurstColumns

NEAR = timedelta(seconds=2)
"""Paths that an outage cuts lose their first packet within so much of each other, and a packet's spacing."""


@dataclass(frozen=True, slots=True)
class CutBursts:
    """The bursts of a path, cut at its outage: its first packet was lost at `began`, the first answered again at
    `ended`, None while it lasts."""

    bursts: BurstColumns
    began: datetime
    ended: datetime | None


def cut_at_outage(bursts: BurstColumns, path_id: int, spacing: Spacing, began: Beginning | None) -> CutBursts | None:
    """The bursts of a path cut at its own outage; None where none began near the onset of the incident."""
    if began is None or not began.is_outage:
        return None
    own = bursts.where(bursts.path_id == path_id)
    packets = packets_of(own.where(own.during_test == 0), spacing)
    near_s = NEAR.total_seconds() + spacing.most_s
    is_near = np.abs(packets.sent_s - began.at.timestamp()) <= near_s
    run = longest_run(packets, is_near)
    if run is None or run[0] == 0 or run[1] - run[0] + 1 < LEAST_UNANSWERED or not is_near[run[0]]:
        return None
    first, last = run
    cut, ended = _split(own, spacing, float(packets.sent_s[first])), None
    if last + 1 < len(packets.lost):
        ended = datetime.fromtimestamp(float(packets.sent_s[last + 1]), UTC)
        cut = _split(cut, spacing, ended.timestamp())
    return CutBursts(cut, datetime.fromtimestamp(float(packets.sent_s[first]), UTC), ended)


def _split(bursts: BurstColumns, spacing: Spacing, at_s: float) -> BurstColumns:
    """The same packets, with each burst that was under way at `at_s` split into two bursts there."""
    spacing_s = (spacing.least_s + spacing.most_s) / 2.0
    number = np.arange(bursts.rtts_ms.shape[1])
    sent_s = bursts.at_s[:, np.newaxis] + number * spacing_s
    is_sent = number < bursts.sent[:, np.newaxis]
    before = (is_sent & (sent_s < at_s - SAME_S)).sum(axis=1)
    is_both = (before > 0) & (before < bursts.sent) & (bursts.during_test == 0)
    both, before = bursts.where(is_both), before[is_both]
    parts = [
        _part(both, np.zeros_like(before), before, 0.0),
        _part(both, before, both.sent.astype(np.int64) - before, spacing_s),
    ]
    every = bursts.where(~is_both)
    for part in parts:
        every = episode.concatenate_bursts(every, part)
    return every.in_order()


def _part(bursts: BurstColumns, first: NDArray[np.int64], sent: NDArray[np.int64], spacing_s: float) -> BurstColumns:
    """So many packets of each burst from its packet `first` on; the duplicates are those of the first part."""
    number = np.arange(bursts.rtts_ms.shape[1])
    place = np.minimum(first[:, np.newaxis] + number, number[-1]) if len(number) else number
    rtts_ms = np.where(
        number < sent[:, np.newaxis], np.take_along_axis(bursts.rtts_ms, place.reshape(bursts.rtts_ms.shape), 1), np.nan
    )
    received = (~np.isnan(rtts_ms)).sum(axis=1).astype(np.float64)
    is_first = (first == 0).astype(np.float64)
    return BurstColumns(
        path_id=bursts.path_id,
        at_s=bursts.at_s + first * spacing_s,
        packet_bytes=bursts.packet_bytes,
        sent=sent.astype(np.float64),
        received=received,
        duplicates=bursts.duplicates * is_first,
        reordered=bursts.reordered * is_first,
        during_test=bursts.during_test,
        ttl=np.where(received > 0, bursts.ttl, np.nan),
        rtts_ms=rtts_ms,
    )
