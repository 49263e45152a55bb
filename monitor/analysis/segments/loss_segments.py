"""The reported segments of loss of many paths, with start and packets. A state is reported from TOLD_FROM until below
TOLD_UNTIL."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.changes.present import LostPackets, summed
from monitor.analysis.loss import LEAST_UNANSWERED, OUTAGE_CHANCE, OUTAGE_CYCLES
from monitor.analysis.segments.chain_sums import AFTER_LOST, AFTER_RECEIVED, LOST_AFTER_LOST, LOST_AFTER_RECEIVED
from monitor.analysis.segments.loss_filter import LossFilter, Rows, lost_of_stretch
from monitor.analysis.segments.segment import MOST_SEGMENTS, OUTSIDE, TOLD_UNTIL, Moment
from monitor.analysis.segments.stretches import CLEAN, DEAD, LOSSY, PRIOR_LOST, PRIOR_RECEIVED

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

TOLD_FROM = 0.8
# From the first to the last unanswered request; a shorter interruption is a loss in runs.
SHORTEST_OUTAGE_S = 15.0
# Runs of lost packets by which an interval widens, since they selected the segment's start.
CHOSEN_RUNS = 2.0


@dataclass(frozen=True, slots=True)
class LossSegment:
    """A stretch in a state since a moment, with its packets."""

    state: int
    since: Moment
    lost: LostPackets
    packet_bytes: int = 0  # the packets told of, 0 for all sizes

    @property
    def level(self) -> float | None:
        """The loss; None without packets."""
        return self.lost.ratio if self.lost.sent else None

    @property
    def worst(self) -> float | None:
        return self.level


class LossSegments:
    """The segments of `paths` paths, each with its limit of loss, NaN for none. `outages` last from the last reply
    before to the first after."""

    def __init__(self, paths: int) -> None:
        self.filter = LossFilter(paths)
        self.limits = np.full(paths, np.nan)
        # Between the starts of two bursts, and from the first packet of a burst to the last.
        self.apart_s = np.zeros((2, paths))
        # Whether a rule has found a loss above the limit: then a clean stretch may be above it too.
        self.is_found = np.zeros(paths, dtype=np.bool_)
        self.states = np.zeros(paths, dtype=np.int8)
        self.is_above = np.zeros(paths, dtype=np.bool_)
        # Whether the loss is above the limit with a probability of more than OUTSIDE.
        self.may_be_above = np.zeros(paths, dtype=np.bool_)
        # Since the last gap.
        self.sums = np.zeros((4, paths))
        # How often a segment began.
        self.changes = np.zeros(paths, dtype=np.int64)
        self.outages: dict[int, deque[tuple[float, float]]] = {}
        self._since = np.full((3, paths), -np.inf)
        self._before = np.zeros((4, paths))
        self._earlier: dict[int, deque[LossSegment]] = {}
        # Of the newest packets: the last reply, the first request after it without one, the first reply after such.
        self._replied_s, self._silent_s, self._again_s = np.full((3, paths), np.nan)
        # The first reply after the newest outage.
        self._revived_s = np.full(paths, -np.inf)
        # Newest entirely lost bursts in a row, and newest lost packets in a row, across bursts.
        self._unanswered = np.zeros((2, paths))

    def begin(self, rows: Rows, at_s: Floats) -> None:
        """Begin these paths anew with a burst, without a history."""
        self.filter.begin(rows)
        self.states[rows], self.is_above[rows], self.may_be_above[rows] = CLEAN, False, False
        self.changes[rows] += 1
        self.sums[:, rows], self._before[:, rows] = 0.0, 0.0
        self._since[:, rows] = np.stack([at_s, np.full(len(rows), -np.inf), at_s])
        self._replied_s[rows] = self._silent_s[rows] = self._again_s[rows] = np.nan
        self._revived_s[rows] = -np.inf
        self._unanswered[:, rows] = 0.0
        for kept in (self._earlier, self.outages):
            for row in rows[np.isin(rows, list(kept))].tolist():
                del kept[row]

    def begin_clean(self, rows: Rows, since_s: Floats, sums: Floats) -> None:
        """Begin these paths with a stored clean segment of these packets."""
        self.begin(rows, since_s)
        self.filter.begin_clean(rows, sums)
        self.sums[:, rows] = sums

    def take(
        self,
        rows: Rows,
        at_s: Floats,
        spacing_s: Floats,
        sums: Floats,
        replies_s: Floats,
        silence: Floats,
        again: Floats,
    ) -> None:
        """Take one burst of each path, as `LossFilter.take`.

        `replies_s` (2, rows): first and last reply, NaN without; `silence` (2, rows): first request after the last
        reply, NaN without, and packets since; `again`: sums from the first reply on.
        """
        (first_s, last_s), (silent_s, silent) = replies_s, silence
        is_answered = ~np.isnan(last_s)
        self._note_outages(rows[is_answered], first_s[is_answered])
        self.sums[:, rows] += sums
        # A burst of another size may have begun, and been answered, before the silence: it goes on.
        is_reply = is_answered & ~(last_s < self._silent_s[rows])
        before = np.where(is_reply, 0.0, self._unanswered[:, rows])
        self._unanswered[:, rows] = before + np.stack([~is_answered, silent])
        again_s = np.where(np.isnan(self._again_s[rows]), first_s, self._again_s[rows])
        self._again_s[rows] = np.where(is_answered, again_s, np.nan)
        self._replied_s[rows] = np.fmax(self._replied_s[rows], last_s)
        self._silent_s[rows] = np.fmin(np.where(is_reply, np.nan, self._silent_s[rows]), silent_s)
        # An outage ends with its first reply: no packet before that tells of what follows, nor one of a burst beside.
        is_end = is_answered & (self.states[rows] == DEAD)
        self._revived_s[rows[is_end]] = first_s[is_end]
        self.filter.begin_after(rows[is_end], DEAD, first_s[is_end])
        is_part = is_answered & (at_s <= self._revived_s[rows])
        told = np.where(is_part, again, sums)
        self._before[:, rows] += np.where(is_end, 0.0, sums - told)
        self.filter.take(rows, at_s, np.where(is_end, 0.0, spacing_s), told)
        is_calm = self.filter.is_settled[rows] & (self.states[rows] == CLEAN) & ~self.is_above[rows]
        is_calm &= ~self.may_be_above[rows] & (told[LOST_AFTER_RECEIVED] + told[AFTER_LOST] == 0.0)
        self._tell(rows[~is_calm | self.is_found[rows]])

    def begin_silence(self, rows: Rows) -> None:
        """Restart the silences of these paths with the next burst, unless already outages: replies in between are
        unknown."""
        rows = rows[self.states[rows] != DEAD]
        self._silent_s[rows], self._unanswered[:, rows] = np.nan, 0.0

    def segments(self, row: int) -> tuple[LossSegment, ...]:
        newest = self._segment(row, self.sums[:, row])
        return (*self._earlier.get(row, ()), newest)

    def begins_loss(self, row: int) -> bool:
        return bool(self.states[row] == LOSSY)

    def date(self, row: int, earlier: Sequence[LossSegment], since: Moment, sums: Floats) -> None:
        """Replace a path's newest segment after looking back: its predecessors, start and packets."""
        self._before[:, row] = self.sums[:, row] - sums
        self.retell(row, earlier, since)

    def retell(self, row: int, earlier: Sequence[LossSegment], since: Moment) -> None:
        self._earlier[row] = deque(earlier, maxlen=MOST_SEGMENTS)
        self._set_since(row, since)

    @property
    def since_s(self) -> Floats:
        return np.asarray(self._since[0])

    def _set_since(self, row: int, since: Moment) -> None:
        self._since[:, row] = since.at_s, since.earliest_s, since.latest_s

    def _moment(self, row: int) -> Moment:
        return Moment(*self._since[:, row].tolist())

    def _note_outages(self, rows: Rows, first_s: Floats) -> None:
        """Store outages ended by these replies, and too short ones as segments."""
        is_long = (first_s - self._silent_s[rows] >= SHORTEST_OUTAGE_S) & self._is_no_chance(rows)
        is_after = (self._unanswered[0, rows] > 0.0) & ((self.states[rows] == DEAD) | is_long)
        for row, end_s in zip(rows[is_after].tolist(), first_s[is_after].tolist(), strict=True):
            begin_s = self._silent_s[row] if np.isnan(self._replied_s[row]) else self._replied_s[row]
            self.outages.setdefault(row, deque(maxlen=MOST_SEGMENTS)).append((float(begin_s), end_s))
            if self.states[row] != DEAD:
                self._change(row, DEAD)

    def _tell(self, rows: Rows) -> None:
        """Update the reported states of these paths."""
        if not len(rows):
            return
        self.filter.settle(rows)
        clean, lossy = (self.filter.probability(state, rows=rows) for state in (CLEAN, LOSSY))
        before = self.states[rows]
        is_lost = np.where(before == CLEAN, 1.0 - clean >= TOLD_FROM, 1.0 - clean >= TOLD_UNTIL)
        is_silent = self._unanswered[0, rows] > 0.0
        # Until a reply, or a second burst without any, nothing tells a loss from the begin of an outage.
        lost = self.filter.newest(rows, LOSSY)[[LOST_AFTER_RECEIVED, LOST_AFTER_LOST]].sum(axis=0)
        may_be_dead = is_silent | (lost <= self._unanswered[1, rows])
        is_lossy = is_lost & np.where(before == DEAD, lossy > clean, (before == LOSSY) | ~may_be_dead)
        is_dead = is_silent & ((before == DEAD) | self._are_outages(rows))
        states = np.where(is_dead, DEAD, np.where(is_lossy, LOSSY, CLEAN)).astype(np.int8)
        is_another = (states == LOSSY) & (before == LOSSY)
        is_another &= self.filter.begun_after(rows, self._since[2, rows]) >= TOLD_FROM
        is_changed = is_another | (states != before)
        for row, state in zip(rows[is_changed].tolist(), states[is_changed].tolist(), strict=True):
            self._change(row, state)
        above = self.filter.above(np.nan_to_num(self.limits[rows], nan=1.0), rows, may_be_clean=True)
        self.may_be_above[rows] = above > OUTSIDE
        above = np.where(self.is_found[rows], above, np.minimum(above, 1.0 - clean))
        is_told = self.is_above[rows] | ((states == CLEAN) & may_be_dead)
        self.is_above[rows] = np.where(is_told, self.is_above[rows] & (above >= TOLD_UNTIL), above >= TOLD_FROM)

    def _are_outages(self, rows: Rows) -> Bools:
        """Whether the newest entirely lost bursts are an outage."""
        return np.asarray((self._unanswered[0, rows] >= OUTAGE_CYCLES) & self._is_no_chance(rows))

    def _is_no_chance(self, rows: Rows) -> Bools:
        """Whether the run of losses is improbable at the segment before."""
        packets = self._unanswered[1, rows]
        after_received, lost_then, after_lost, lost_again = self.sums[:, rows] - self._before[:, rows]
        sent, lost = after_received + after_lost - packets, lost_then + lost_again - packets
        # With the prior of its state: of three packets that were all lost the next need not be.
        states = self.states[rows]
        before = PRIOR_LOST[states] + PRIOR_RECEIVED[states] + np.maximum(sent, 0.0)
        ratio = (PRIOR_LOST[states] + np.maximum(lost, 0.0)) / before
        return np.asarray((packets >= LEAST_UNANSWERED) & (ratio**packets <= OUTAGE_CHANCE))

    def _change(self, row: int, state: int) -> None:
        begun, ended = self._begin_of(row, state), self.sums[:, row] - self.filter.newest(np.array([row]), state)[:, 0]
        segment, earlier = self._segment(row, ended), self._earlier.setdefault(row, deque(maxlen=MOST_SEGMENTS))
        if begun.at_s > segment.since.at_s and segment.lost.sent > 0.0:  # else the path was never in the state before
            if state == DEAD and earlier and self._is_single_run(row):
                earlier[-1] = replace(earlier[-1], lost=summed([earlier[-1].lost, segment.lost]))
            else:
                earlier.append(segment)
            self._before[:, row] = ended
        self._set_since(row, begun)
        self.states[row] = state
        self.changes[row] += 1

    def _is_single_run(self, row: int) -> bool:
        """Whether the newest segment is one unanswered run of lost packets."""
        _, _, after_lost, lost_again = self.sums[:, row] - self._before[:, row]
        return bool(self.states[row] == LOSSY and after_lost == lost_again)

    def _segment(self, row: int, until: Floats) -> LossSegment:
        state, sums = int(self.states[row]), np.maximum(until - self._before[:, row], 0.0)
        since, runs = self._moment(row), float(sums[LOST_AFTER_RECEIVED])
        if not runs + sums[LOST_AFTER_LOST]:
            return LossSegment(state, since, LostPackets(float(sums[AFTER_RECEIVED] + sums[AFTER_LOST]), 0.0))
        lost = lost_of_stretch(state, sums)
        if state == LOSSY and runs:  # of few runs the first, with which the segment begins by choice, tells little
            lost = replace(lost, together=lost.together * (1.0 + CHOSEN_RUNS / runs))
        return LossSegment(state, since, lost)

    def _begin_of(self, row: int, state: int) -> Moment:
        """Start by the last reply before an outage or the first after."""
        replied_s, silent_s, again_s = (float(of[row]) for of in (self._replied_s, self._silent_s, self._again_s))
        if state == DEAD and np.isfinite(replied_s) and np.isfinite(silent_s):
            return Moment(replied_s, replied_s, silent_s)
        if self.states[row] == DEAD and np.isfinite(again_s):
            return Moment(again_s, again_s, again_s)
        at_s, earliest_s, latest_s = self.filter.begins(row, state)
        first_s, (every_s, lasts_s) = float(self._since[0, row]), self.apart_s[:, row].tolist()
        return Moment(max(at_s, first_s), earliest_s - every_s, max(latest_s, first_s) + lasts_s)
