"""Bursts of many paths with the order of their lost packets, and new arrivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.segments.chain_sums import sums_in_order, sums_of_whole, sums_without_order
from monitor.archive.path_groups import groups_of, is_since
from monitor.archive.queries.for_alerts import floats_of, newest_directions, row_of_bytes
from monitor.archive.round_trips import unpack
from monitor.archive.statements import records, run_statement, statement
from monitor.arrays import Bools, Floats
from monitor.prepared import array_text
from probes.contract import Outcome

COUNTS, OWN_TEST = 0.0, 1.0
# Stands for the size of packets followed without it.
ONE_SIZE = 1
OUTCOMES = tuple(outcome.value for outcome in Outcome if outcome is not Outcome.MEASURED)


@dataclass(frozen=True, slots=True)
class LostOrder:
    """Bursts, without packets during own tests."""

    path_id: Floats
    packet_bytes: Floats
    at_s: Floats
    sent: Floats
    received: Floats
    result: Floats  # COUNTS, OWN_TEST, or OWN_TEST plus the outcome's place in OUTCOMES
    loaded_sent: Floats  # packets during own tests, at unknown places in the burst
    loaded_received: Floats
    sums: Floats  # of Gilbert's chain, each begun anew: shape (4, bursts)
    first_reply: Floats  # number, from 0, of the first packet with a reply; NaN without
    last_reply: Floats  # number, from 0, of the last packet with a reply; NaN without

    def part(self, places: NDArray[np.int64]) -> LostOrder:
        return LostOrder(*(getattr(self, field.name)[..., places] for field in fields(LostOrder)))

    @property
    def first_lost(self) -> Bools:
        return np.asarray(self.first_reply != 0.0, dtype=np.bool_)

    @property
    def last_lost(self) -> Bools:
        return np.asarray(self.last_reply != self.sent - 1.0, dtype=np.bool_)

    def places(self, was_lost: Bools) -> Floats:
        """Numbers of the first and last packet with a reply, and packets lost before, shape (3, bursts).

        `was_lost`, the packet before, decides for bursts answered only during own tests.
        """
        sent, answered = self.sent + self.loaded_sent, self.received + self.loaded_received
        is_none, has_other = self.received == 0.0, self.loaded_received > 0.0
        # All answered packets come before the first lost one; with `is_back`, after the last.
        is_cut = np.where(is_none, has_other, self.received == self.last_reply + 1.0)
        is_back = np.where(is_none, has_other, self.sent - self.received == self.first_reply)
        is_loaded = (self.loaded_sent > 0.0) & (answered < sent)
        is_cut, is_back = is_loaded & is_cut & ~(is_back & was_lost), is_loaded & is_back & ~(is_cut & ~was_lost)
        first = np.select([is_cut, is_back], [0.0, sent - answered], self.first_reply)
        last = np.select([is_cut, is_back], [answered - 1.0, sent - 1.0], self.last_reply)
        lost_before = np.where(is_back & is_none, self.sent, np.nan_to_num(self.first_reply))
        return np.stack([first, last, lost_before])


@dataclass(frozen=True, slots=True)
class Arrival:
    """Newest batch of a spool, with its earliest unseen measurement, or None."""

    site_id: int
    spool: str
    number: int
    measured_from: datetime | None


def arrivals(seen: Mapping[tuple[int, str], int], since: datetime) -> list[Arrival]:
    """Spools with unseen batches; `seen` has each site's and spool's newest number."""
    parameters = {
        "site_ids": array_text(site_id for site_id, _ in seen),
        "spools": [spool for _, spool in seen],
        "numbers": array_text(seen.values()),
        "since": since,
    }
    return records(Arrival, *run_statement("arrivals", **parameters))


def lost_order(path_ids: Sequence[int], since_s: Sequence[float], until: datetime) -> LostOrder:
    """Bursts of each path since its own time (seconds since the epoch), a day at most. Paths are listed once."""
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
        *numbers, rtts = row_of_bytes(statement("lost_order"), parameters, 10)
        *columns, packets = map(floats_of, numbers)
        part = _with_order(LostOrder(*(*columns, *_unknown(len(packets)))), packets, rtts or b"")
        is_own = is_since(part.path_id, part.at_s, of_group, first_s[group.places])
        parts.append(part.part(np.flatnonzero(is_own)))
    together = LostOrder(
        *(np.concatenate([getattr(part, field.name) for part in parts], axis=-1) for field in fields(LostOrder))
    )
    return together.part(np.lexsort((together.at_s, together.packet_bytes, together.path_id)))


def lost_one_way(way: str, path_ids: Sequence[int], since_s: Sequence[float], until: datetime) -> LostOrder:
    """As `lost_order`, for packets counted by STAMP `forward` or `reverse`: order unknown, sizes pooled, without own
    tests."""
    columns = newest_directions(path_ids, since_s, until)
    sent = columns[f"{way}_sent"]
    places = np.flatnonzero(sent > 0.0)
    at_s, sent, received = columns["at_s"][places], sent[places], columns[f"{way}_received"][places]
    first, result = np.where(received > 0.0, 0.0, np.nan), np.full(len(places), COUNTS)
    size, sums = np.full(len(places), float(ONE_SIZE)), sums_without_order(sent, received)
    none, path_id = np.zeros(len(places)), columns["path_id"][places]
    return LostOrder(path_id, size, at_s, sent, received, result, none, none, sums, first, first + sent - 1.0)


def _unknown(count: int) -> tuple[Floats, Floats, Floats]:
    return np.zeros((4, count)), np.full(count, np.nan), np.full(count, np.nan)


def _none() -> LostOrder:
    nothing = np.zeros(0)
    return LostOrder(*((nothing,) * 8 + _unknown(0)))


def _with_order(bursts: LostOrder, packets: Floats, rtts: bytes) -> LostOrder:
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
