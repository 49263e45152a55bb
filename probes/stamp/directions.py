"""Loss, duplicates and reordering of each direction, from sequence numbers alone.

A counter value that never came back is reverse loss; other unanswered packets are forward loss, or undecided. A forward
duplicate with a lost reply hides a forward loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

COUNTERS = 1 << 32
HALF = COUNTERS >> 1
FEWEST_BEFORE_A_START = 3
# Unanswered first packets are loss if at least this likely by later loss; else the reflector may have started then.
CHANCE_OF_A_START = 0.01
# Packets that reached the reflector this far apart were counted in the order of arrival.
NOT_A_RACE_NS = 1_000_000


class ArrivedReply(NamedTuple):
    turn: int  # of the packet that it answers
    counter: int  # the reflector's
    far_received_ns: int  # 0 if not reported


@dataclass(frozen=True, slots=True)
class CountedDirections:
    """The counts of a burst; a direction's are None without a counter."""

    is_stateful: bool | None
    undecided: int
    reflected: int | None = None  # packets at the reflector, duplicates included, as far as counted
    forward_lost: int | None = None
    reverse_lost: int | None = None
    forward_duplicates: int | None = None
    reverse_duplicates: int | None = None
    forward_reordered: int | None = None
    reverse_reordered: int | None = None


def count_directions(sent: int, replies: Sequence[ArrivedReply]) -> CountedDirections:
    """Count packets of turns 0 to `sent`; later turns are closing packets.

    `replies` are in arrival order, late ones included.
    """
    answered = {reply.turn for reply in replies if reply.turn < sent}
    unanswered = sent - len(answered)
    if not replies:
        return CountedDirections(None, unanswered)
    distinct = _first_of_each(replies)
    runs = _runs(distinct)
    loss = _Loss()
    before = -1
    for run in runs:
        before = loss.add_run(run, before, sent, answered)
    loss.undecided += _unanswered(before + 1, sent, answered)
    counted = [reply for reply in distinct if reply.turn < sent]
    doubled = len(counted) - len(answered)
    if loss.missing > unanswered + doubled + sent:
        # Far more replies than packets: the reflector counts those of other senders too.
        return CountedDirections(None, unanswered)
    return CountedDirections(
        is_stateful=True,
        undecided=loss.undecided,
        reflected=len(counted) + loss.missing,
        forward_lost=loss.forward,
        reverse_lost=loss.reverse,
        forward_duplicates=doubled,
        reverse_duplicates=sum(reply.turn < sent for reply in replies) - len(counted),
        forward_reordered=sum(_reordered([reply.turn for reply in _by_turn(run)]) for run in runs),
        reverse_reordered=_reverse_reordered(replies, runs),
    )


class _Loss:
    """Losses so far; `missing` counts replies that never came, maybe several per packet."""

    def __init__(self) -> None:
        self.forward = self.reverse = self.undecided = self.missing = 0

    def add_run(self, run: list[ArrivedReply], before: int, sent: int, answered: set[int]) -> int:
        """Add replies between restarts; return the last turn covered."""
        body = [reply for reply in run if reply.turn < sent]
        closing = [reply for reply in run if reply.turn >= sent]
        last_turn = max((reply.turn for reply in body), default=before)
        last = max((reply.counter for reply in body), default=-1)
        forward_before, covered_turn = self.forward, last_turn
        # A closing packet's counter decides the packets before it.
        if closing and (body or before < 0):
            counter, turn = min((reply.counter, reply.turn) for reply in closing)
            self._add_tail(counter - last - 1, last_turn + 1, sent, turn, answered)
            covered_turn = max(last_turn, sent - 1)
        if body:
            counters = {reply.counter for reply in body}
            first, first_turn = min(counters), min(reply.turn for reply in body)
            missing = last - first + 1 - len(counters)
            # A new session: its counter began with 0.
            is_new = before < 0 and first <= _unanswered(0, last_turn + 1, answered)
            lost_later = (
                self.forward - forward_before + max(0, _unanswered(first_turn, last_turn + 1, answered) - missing)
            )
            if is_new and not self._may_have_started(first_turn - first, lost_later, covered_turn + 1 - first_turn):
                self._add_gap(missing + first, 0, last_turn + 1, answered)
            else:
                self._add_gap(missing, first_turn, last_turn + 1, answered)
                self._add_start(first if is_new or before >= 0 else 0, before + 1, first_turn, answered)
        return covered_turn

    def _may_have_started(self, uncounted: int, lost: int, sent: int) -> bool:
        """Whether the reflector may have started after `uncounted` packets; `lost` of `sent` later."""
        loss_ratio = (lost + 1) / (sent + 2)
        return uncounted >= FEWEST_BEFORE_A_START and loss_ratio**uncounted < CHANCE_OF_A_START

    def _add_gap(self, missing: int, since: int, until: int, answered: set[int]) -> None:
        """Add packets between two replies, between which `missing` replies never came."""
        lost = _unanswered(since, until, answered)
        self.missing += missing
        self.reverse += min(missing, lost)
        self.forward += max(0, lost - missing)

    def _add_start(self, counter: int, since: int, until: int, answered: set[int]) -> None:
        """Add packets before a run's first reply; the reflector had counted `counter`."""
        lost = _unanswered(since, until, answered)
        certain = counter if counter <= lost else 0
        self.missing += certain
        self.reverse += certain
        self.undecided += lost - certain

    def _add_tail(self, missing: int, since: int, sent: int, closing_turn: int, answered: set[int]) -> None:
        """Add packets after the last reply, by a closing reply's counter."""
        lost = _unanswered(since, sent, answered)
        closers = closing_turn - sent
        if missing == 0:
            self.forward += lost
        elif closers == 0 or missing >= lost + closers:
            self.missing += min(missing, lost)
            self.reverse += min(missing, lost)
            self.forward += max(0, lost - missing)
        else:
            self.undecided += lost


def _unanswered(since: int, until: int, answered: set[int]) -> int:
    return sum(turn not in answered for turn in range(since, until))


def _first_of_each(replies: Sequence[ArrivedReply]) -> list[ArrivedReply]:
    """Drop repeated arrivals; counters continue beyond 32 bits."""
    reference = replies[0].counter
    seen: dict[tuple[int, int], ArrivedReply] = {}
    for reply in replies:
        counter = reference + (reply.counter - reference + HALF) % COUNTERS - HALF
        seen.setdefault((reply.turn, counter), reply._replace(counter=counter))
    least = min(reply.counter for reply in seen.values())
    # A counter that wrapped within the burst has values below 0: count on from the lowest.
    lift = COUNTERS if least < 0 else 0
    return [reply._replace(counter=reply.counter + lift) for reply in seen.values()]


def _runs(replies: Sequence[ArrivedReply]) -> list[list[ArrivedReply]]:
    """Split replies at restarts, between which the reflector's counter only rises."""
    is_timed = all(reply.far_received_ns for reply in replies)
    if is_timed:
        ordered = sorted(replies, key=lambda reply: (reply.far_received_ns, reply.counter))
    else:
        ordered = sorted(replies, key=lambda reply: (reply.turn, reply.counter))
    often = Counter(reply.counter for reply in replies).most_common(1)[0][1] > 1
    runs = [[ordered[0]]]
    for before, reply in pairwise(ordered):
        apart = is_timed and reply.far_received_ns - before.far_received_ns > NOT_A_RACE_NS
        falls = reply.counter <= before.counter
        if falls and (apart or (often and any(other.counter == reply.counter for other in runs[-1]))):
            runs.append([])
        runs[-1].append(reply)
    return [sorted(run, key=lambda reply: reply.counter) for run in runs]


def _by_turn(run: Sequence[ArrivedReply]) -> list[ArrivedReply]:
    """Each packet's first arrival at the reflector, in order."""
    first: dict[int, ArrivedReply] = {}
    for reply in run:
        first.setdefault(reply.turn, reply)
    return list(first.values())


def _reverse_reordered(replies: Sequence[ArrivedReply], runs: Sequence[Sequence[ArrivedReply]]) -> int:
    """Replies overtaken on the way back; copies count once, at their first."""
    place = {
        (reply.turn, reply.counter % COUNTERS): position
        for position, reply in enumerate(reply for run in runs for reply in run)
    }
    seen = dict.fromkeys(place[reply.turn, reply.counter] for reply in replies)
    return _reordered(list(seen))


def _reordered(sequence: Sequence[int]) -> int:
    """Members that come after a larger one (RFC 4737, section 3.3)."""
    largest, count = -1, 0
    for member in sequence:
        count += member < largest
        largest = max(largest, member)
    return count
