"""Cut the bursts of a path at the begin and end of an outage, so that each packet counts where it was sent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.packet_times import SAME_S, Spacing, longest_run, packets_of
from monitor.alerts.evidence import episode
from monitor.alerts.evidence.facts import Beginning
from monitor.analysis.loss import LEAST_UNANSWERED
from monitor.archive.queries.around import BurstColumns

Counts = NDArray[np.int64]

# Paths in an outage lose their first packet within this time, and a packet's spacing, of each other.
NEAR = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class CutBursts:
    bursts: BurstColumns
    began: datetime  # all packets sent since were lost
    ended: datetime | None  # first answered packet sent; None while it lasts


def cut_at_outage(bursts: BurstColumns, path_id: int, spacing: Spacing, began: Beginning | None) -> CutBursts | None:
    """Cut at the incident's onset, if the path's own outage began near it; else None."""
    if began is None or not began.is_outage or began.earliest is None or began.latest is None:
        return None
    own = bursts.where(bursts.path_id == path_id)
    packets = packets_of(own.where(own.during_test == 0), spacing)
    near_s = NEAR.total_seconds() + spacing.most_s
    from_s, to_s = began.earliest.timestamp() - near_s, began.latest.timestamp() + near_s
    is_near = (packets.earliest_s <= to_s) & (packets.latest_s >= from_s)
    run = longest_run(packets, is_near)
    if run is None or run[0] == 0 or run[1] - run[0] + 1 < LEAST_UNANSWERED or not is_near[run[0]]:
        return None
    first, last = run
    is_answered = ~packets.lost[:first]
    replies_s = packets.planned_s[:first][is_answered]
    onset_s = max(began.at.timestamp(), float(replies_s.max(initial=-np.inf))) + SAME_S
    onset = datetime.fromtimestamp(onset_s, UTC)
    before = _sent_before_outage(own, spacing, float(packets.sent_s[first]), onset.timestamp())
    cut, ended = _split(own, spacing, before, onset.timestamp()), None
    if last + 1 < len(packets.lost):
        ended_s = float(packets.sent_s[last + 1])
        cut, ended = _split(cut, spacing, _sent_before(cut, spacing, ended_s)), datetime.fromtimestamp(ended_s, UTC)
    return CutBursts(cut, onset, ended)


def _sent_before_outage(bursts: BurstColumns, spacing: Spacing, lost_s: float, began_s: float) -> Counts:
    # A packet that may be lost in it counts as such.
    number = np.arange(bursts.rtts_ms.shape[1])
    is_sent = number < bursts.sent[:, np.newaxis]
    missing = np.maximum(spacing.packets - bursts.sent, 0.0)[:, np.newaxis]
    begins_s = bursts.at_s[:, np.newaxis]
    # Packets set aside make a packet's own time uncertain.
    sent_s = begins_s + (number + missing / 2.0) * spacing.most_s
    latest_s = begins_s + (number + missing) * spacing.most_s + spacing.slack_s
    is_answered = is_sent & ~np.isnan(bursts.rtts_ms) & (sent_s < lost_s)
    answered = np.where(is_answered, number + 1, 0).max(axis=1, initial=0)
    return np.maximum(answered, (is_sent & (latest_s < began_s)).sum(axis=1))


def _sent_before(bursts: BurstColumns, spacing: Spacing, at_s: float) -> Counts:
    number = np.arange(bursts.rtts_ms.shape[1])
    sent_s = bursts.at_s[:, np.newaxis] + number * (spacing.least_s + spacing.most_s) / 2.0
    return ((number < bursts.sent[:, np.newaxis]) & (sent_s < at_s - SAME_S)).sum(axis=1)


def _split(bursts: BurstColumns, spacing: Spacing, before: Counts, from_s: float = 0.0) -> BurstColumns:
    """Split each burst after its first `before` packets; the rest begins at `from_s` or later."""
    spacing_s = (spacing.least_s + spacing.most_s) / 2.0
    is_cut = (before < bursts.sent) & (bursts.during_test == 0)
    cut, of_first = bursts.where(is_cut), before[is_cut]
    first = _part(cut, np.zeros_like(of_first), of_first, 0.0).where(of_first > 0)
    second = _part(cut, of_first, cut.sent.astype(np.int64) - of_first, spacing_s)
    second = replace(second, at_s=np.maximum(second.at_s, from_s))
    every = episode.concatenate_bursts(bursts.where(~is_cut), first)
    return episode.concatenate_bursts(every, second).in_order()


def _part(bursts: BurstColumns, first: NDArray[np.int64], sent: NDArray[np.int64], spacing_s: float) -> BurstColumns:
    """Packets of each burst from `first` on; duplicates stay in the first part."""
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
