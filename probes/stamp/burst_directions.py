"""Directions of a session's bursts: loss by counters, delays, and clock offset, row by row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from probes.packets.arrays import Bools, Int64s
from probes.packets.engine.packet_outcomes import NS_PER_MS, EchoResults
from probes.stamp.delays import RawDelays, offset_interval, summaries
from probes.stamp.directions import ArrivedReply, CountedDirections, count_directions
from probes.stamp.engine.session import SEQUENCES, StampSession
from probes.stamp.engine.table import UNKNOWN, ReplyFigures
from probes.stamp.packets import SYNCHRONISED, decode_estimate
from probes.stamp.spec import ClockBound, StampDirection

MS_PER_S = 1000.0

# Monotonic arrival of a reply, turn of its packet, counter and receive time of the reflector.
Arrival = tuple[int, int, int, int]


class BurstDirections:
    """Counts and delays of each row of a session.

    `closers` are replies to closing packets. Packets `under_load` are left out, unless all are.
    """

    def __init__(
        self,
        results: EchoResults,
        figures: ReplyFigures,
        under_load: Bools,
        first_sequences: Int64s,
        closers: Mapping[int, Sequence[ArrivedReply]],
        clock: ClockBound | None,
    ) -> None:
        self._results = results
        self._figures = figures
        self._first_sequences = first_sequences
        self._closers = closers
        self._clock = clock
        whole = (under_load == results.sent).all(axis=1, keepdims=True)
        self._left_out = under_load & ~whole
        in_time = ~np.isnan(results.rtt_ms) & ~self._left_out
        self._delays = RawDelays.of(
            figures.left_ns, figures.far_received_ns, figures.far_sent_ns, figures.arrived_ns, in_time
        )
        self._forward, self._reverse = summaries(self._delays.forward_ms), summaries(self._delays.reverse_ms)
        self._follow_ups: list[int] = (figures.followed_up & in_time).sum(axis=1).tolist()
        self._further: dict[int, list[Arrival]] = defaultdict(list)
        for row, turn, *arrival in figures.further.tolist():
            counter, arrived_ns, received_ns = arrival
            self._further[row].append((arrived_ns, turn, counter, received_ns))
        self._plain_rows: list[bool] = self._find_plain_rows().tolist()
        self._offsets = [
            offset_interval(forward.get("min_ms"), reverse.get("min_ms"), self._claimed_ms(row))
            for row, (forward, reverse) in enumerate(zip(self._forward, self._reverse, strict=True))
        ]

    def fields(self, row: int, reverse_ttl: int | None) -> dict[str, Any]:
        """The direction fields of a `StampBurst`."""
        counts, offset = self.counts(row), self._offsets[row]
        forward = StampDirection(
            lost=counts.forward_lost,
            duplicates=counts.forward_duplicates,
            reordered=counts.forward_reordered,
            ttl=self._first_of(self._figures.forward_ttl, row),
            dscp=self._first_of(self._figures.forward_dscp, row),
            **self._forward[row],
        )
        reverse = StampDirection(
            lost=counts.reverse_lost,
            duplicates=counts.reverse_duplicates,
            reordered=counts.reverse_reordered,
            ttl=reverse_ttl,
            dscp=self._first_of(self._figures.reverse_dscp, row),
            **self._reverse[row],
        )
        return {
            "is_stateful": counts.is_stateful,
            "reflected": counts.reflected,
            "undecided": counts.undecided,
            "forward": forward,
            "reverse": reverse,
            "offset_lo_ms": None if offset is None else round(offset.lo_ms, 6),
            "offset_hi_ms": None if offset is None else round(offset.hi_ms, 6),
            "far_clock": self._far_clock(row),
            "follow_ups": self._follow_ups[row],
        }

    def notes(self, row: int) -> list[str]:
        """Notes that qualify a row's figures."""
        offset = self._offsets[row]
        if offset is not None and not offset.clocks_agree:
            return ["the clocks of the two hosts differ by more than the errors they claim"]
        return []

    def counts(self, row: int) -> CountedDirections:
        if self._plain_rows[row]:
            sent = self._results.sent.shape[1]
            return CountedDirections(True, 0, sent, 0, 0, 0, 0, 0, 0)
        sent = np.flatnonzero(self._results.sent[row])
        place = {int(turn): number for number, turn in enumerate(sent)}
        first_sequence = int(self._first_sequences[row])
        arrivals = sorted(arrived_replies(self._results, self._figures, row) + self._further[row])
        if arrivals and all((counter - turn - first_sequence) % SEQUENCES == 0 for _, turn, counter, _ in arrivals):
            return self._without_load(
                row, CountedDirections(False, len(sent) - len({arrival[1] for arrival in arrivals}))
            )
        replies = [ArrivedReply(place[turn], counter, received_ns) for _, turn, counter, received_ns in arrivals]
        closing = [reply._replace(turn=len(sent) + reply.turn) for reply in self._closers.get(row, ())]
        return self._without_load(row, count_directions(len(sent), [*replies, *closing]))

    def _without_load(self, row: int, counts: CountedDirections) -> CountedDirections:
        """Counts without load; ambiguous unless losses have one direction."""
        left_out = self._left_out[row]
        if not left_out.any():
            return counts
        lost = int((self._results.sent[row] & ~left_out & (self._results.replies[row] == 0)).sum())
        if not counts.is_stateful:
            return replace(counts, undecided=lost)
        if not counts.undecided and not counts.reverse_lost:
            return replace(counts, forward_lost=lost)
        if not counts.undecided and not counts.forward_lost:
            return replace(counts, reverse_lost=lost)
        return replace(counts, forward_lost=0, reverse_lost=0, undecided=lost)

    def _find_plain_rows(self) -> Bools:
        """Rows with each packet answered once, in order, by the reflector's counter."""
        figures, results = self._figures, self._results
        plain = results.sent.all(axis=1) & (results.replies == 1).all(axis=1)
        plain &= (np.diff(figures.counter, axis=1) == 1).all(axis=1) & (np.diff(results.arrived_ns, axis=1) > 0).all(
            axis=1
        )
        is_ours: Bools = plain & (figures.counter[:, 0] != self._first_sequences)
        return is_ours

    def _claimed_ms(self, row: int) -> float | None:
        far = self._far_clock(row)
        if self._clock is None or self._clock.error_ms is None or far is None or far.error_ms is None:
            return None
        return self._clock.error_ms + far.error_ms

    def _far_clock(self, row: int) -> ClockBound | None:
        answered = np.flatnonzero(self._figures.counter[row] != UNKNOWN)
        if not len(answered):
            return None
        estimate = int(self._figures.estimate[row, answered[-1]])
        error_s = decode_estimate(estimate)
        return ClockBound(
            is_synchronised=bool(estimate & SYNCHRONISED),
            error_ms=None if error_s is None else round(error_s * MS_PER_S, 6),
        )

    @staticmethod
    def _first_of(values: Int64s, row: int) -> int | None:
        known = values[row][values[row] >= 0]
        return int(known[0]) if len(known) else None


def without_dwell(results: EchoResults, figures: ReplyFigures, timeout_s: float) -> EchoResults:
    """RTTs less the time in the reflector, by its clock.

    A busy reflector is no loss.
    """
    known = (figures.far_received_ns > 0) & (figures.far_sent_ns >= figures.far_received_ns)
    dwell_ms = np.where(known, (figures.far_sent_ns - figures.far_received_ns) / NS_PER_MS, 0.0)
    whole_ms = np.where(results.late, (figures.arrived_ns - figures.left_ns) / NS_PER_MS, results.rtt_ms)
    rtt_ms = np.where(dwell_ms <= whole_ms, whole_ms - dwell_ms, whole_ms)
    in_time = rtt_ms <= timeout_s * MS_PER_S
    return replace(results, rtt_ms=np.where(in_time, rtt_ms, np.nan), late=results.late & ~in_time)


def arrived_replies(results: EchoResults, figures: ReplyFigures, row: int) -> list[Arrival]:
    turns = np.flatnonzero(figures.counter[row] != UNKNOWN)
    columns = (results.arrived_ns[row], figures.counter[row], figures.far_received_ns[row])
    arrived_ns, counters, received_ns = (column[turns].tolist() for column in columns)
    return list(zip(arrived_ns, turns.tolist(), counters, received_ns, strict=True))


def closing_replies(rows: Int64s, session: StampSession) -> dict[int, list[ArrivedReply]]:
    """Replies to these rows' closing packets, in order of arrival."""
    results, figures = session.results(), session.figures()
    return {
        row: [
            ArrivedReply(turn, counter, received_ns)
            for _, turn, counter, received_ns in sorted(arrived_replies(results, figures, place))
        ]
        for place, row in enumerate(rows.tolist())
    }
