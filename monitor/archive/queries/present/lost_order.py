"""Bursts of many paths with the order of their lost packets, and the bursts that have arrived since a moment.

In: paths with a time each, or the batches of sites that were seen before. Out: columns by path, size and time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.segments.chain_sums import sums_in_order, sums_of_whole
from monitor.archive.path_groups import groups_of, is_since
from monitor.archive.queries.for_alerts import floats_of, row_of_bytes
from monitor.archive.round_trips import unpack
from monitor.archive.statements import records, run_statement, statement
from monitor.prepared import array_text
from probes.contract import Outcome

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

COUNTS, OWN_TEST = 0.0, 1.0
OUTCOMES = tuple(outcome.value for outcome in Outcome if outcome is not Outcome.MEASURED)


@dataclass(frozen=True, slots=True)
class LostOrder:
    """Bursts. `result` is COUNTS, OWN_TEST, or OWN_TEST plus the place of the outcome in OUTCOMES. `sums` are those of
    Gilbert's chain, shape (4, bursts), each chain begun anew; `first_reply` and `last_reply` are the numbers of the
    first and the last packet with a reply, from 0, NaN without any."""

    path_id: Floats
    packet_bytes: Floats
    at_s: Floats
    sent: Floats
    received: Floats
    result: Floats
    sums: Floats
    first_reply: Floats
    last_reply: Floats

    @property
    def first_lost(self) -> Bools:
        """Whether the first packet of each burst was lost."""
        return np.asarray(self.first_reply != 0.0, dtype=np.bool_)

    @property
    def last_lost(self) -> Bools:
        """Whether the last packet of each burst was lost."""
        return np.asarray(self.last_reply != self.sent - 1.0, dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class Arrival:
    """The newest batch of a spool, and the earliest measurement in its batches that had not been seen; None without
    any measurement in them."""

    site_id: int
    spool: str
    number: int
    measured_from: datetime | None


def arrivals(seen: Mapping[tuple[int, str], int], since: datetime) -> list[Arrival]:
    """The spools with batches received from `since` on that were not seen: `seen` has the newest number of each site
    and spool."""
    parameters = {
        "site_ids": array_text(site_id for site_id, _ in seen),
        "spools": [spool for _, spool in seen],
        "numbers": array_text(seen.values()),
        "since": since,
    }
    return records(Arrival, *run_statement("arrivals", **parameters))


def lost_order(path_ids: Sequence[int], since_s: Sequence[float], until: datetime) -> LostOrder:
    """The bursts of each path from its own time on (seconds since the epoch), a day at most before `until`;
    all sizes. Each path is listed once."""
    ids, first_s = np.asarray(path_ids, dtype=np.int64), np.asarray(since_s, dtype=np.float64)
    parts = [_none()]
    for group in groups_of(first_s, until):
        of_group = ids[group.places].tolist()
        parameters = {
            "path_ids": array_text(of_group),
            "since": group.since,
            "until": until,
            "outcomes": list(OUTCOMES),
        }
        *numbers, rtts = row_of_bytes(statement("lost_order"), parameters, 8)
        path_id, packet_bytes, at_s, sent, received, result, packets = map(floats_of, numbers)
        is_own = is_since(path_id, at_s, of_group, first_s[group.places])
        part = _with_order(
            LostOrder(path_id, packet_bytes, at_s, sent, received, result, *_unknown(len(at_s))), packets, rtts or b""
        )
        parts.append(_taken(part, np.flatnonzero(is_own)))
    together = LostOrder(
        *(np.concatenate([getattr(part, field.name) for part in parts], axis=-1) for field in fields(LostOrder))
    )
    return _taken(together, np.lexsort((together.at_s, together.packet_bytes, together.path_id)))


def _unknown(count: int) -> tuple[Floats, Floats, Floats]:
    return np.zeros((4, count)), np.full(count, np.nan), np.full(count, np.nan)


def _none() -> LostOrder:
    nothing = np.zeros(0)
    return LostOrder(*(nothing,) * 6, *_unknown(0))


def _taken(bursts: LostOrder, places: NDArray[np.int64]) -> LostOrder:
    return LostOrder(*(getattr(bursts, field.name)[..., places] for field in fields(LostOrder)))


def _with_order(bursts: LostOrder, packets: Floats, rtts: bytes) -> LostOrder:
    """The sums and replies of bursts, of those with some replies by their order."""
    sums = sums_of_whole(bursts.sent, bursts.received)
    first_reply = np.where(bursts.received > 0.0, 0.0, np.nan)
    last_reply = np.where(bursts.received > 0.0, bursts.sent - 1.0, np.nan)
    lengths = packets.astype(np.int64)
    rtts_ms = unpack(lengths, rtts)
    for length in np.unique(lengths[lengths > 0]).tolist():
        of_length = np.flatnonzero(lengths == length)
        lost = np.isnan(rtts_ms[of_length, :length])
        sums[:, of_length] = sums_in_order(lost)
        first_reply[of_length] = lost.argmin(axis=1)
        last_reply[of_length] = length - 1 - lost[:, ::-1].argmin(axis=1)
    return replace(bursts, sums=sums, first_reply=first_reply, last_reply=last_reply)
