"""The search for a target's route: TTLs to probe next, and its hops. No I/O.

A window grows from the destination (Donnet et al., "Doubletree", SIGMETRICS 2005).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from probes.trace.round_bounds import WINDOW_HOPS
from probes.trace.spec import MOST_ATTEMPTS, MOST_LABELS, MOST_OTHERS, Hop, MplsLabel

# The search ends after so many silent TTLs beyond the last reply, unless the destination is known to reply.
GAP_HOPS = 5

# Unanswered probes that end a route (`MOST_ATTEMPTS` on lossy paths): 60% loss drops 12 once in 500 traces.
CONFIRM_PROBES = 12
CONFIRM_BATCH = 4
# Probes of two neighbouring hops with the same router, so that most are of the same route.
DOUBLED_PROBES = 3

EXCEEDED = "time_exceeded"
REACHED = "reached"

# TTLs that hosts set: Linux and macOS, Windows, Solaris and many routers.
USUAL_INITIAL_TTLS = (64, 128, 255)


class Answer(NamedTuple):
    address: str
    rtt_ms: float
    event: str = EXCEEDED  # `EXCEEDED`, `REACHED` or the name of another ICMP error
    mpls: tuple[MplsLabel, ...] = ()
    reply_ttl: int | None = None


@dataclass(frozen=True, slots=True)
class EarlierRoute:
    """A target's route in an earlier round, for planning."""

    hops: tuple[str | None, ...]  # addresses from TTL 1 on, None where silent
    reached: bool  # the last hop is the destination

    def at(self, ttl: int) -> str | None:
        return self.hops[ttl - 1] if 1 <= ttl <= len(self.hops) else None

    def agrees(self, other: EarlierRoute) -> bool:
        """Whether lengths match, and no known routers differ."""
        return len(self.hops) == len(other.hops) and all(
            here is None or there is None or here == there for here, there in zip(self.hops, other.hops, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Join:
    """From `ttl` down, the route is another target's."""

    rank: int
    ttl: int


def distance(reply_ttl: int) -> int:
    """Hops from a host, on the reverse path, by its reply's TTL."""
    return next(initial for initial in USUAL_INITIAL_TTLS if initial >= reply_ttl) - reply_ttl + 1


@dataclass(slots=True)
class HopProbes:
    """The probes of a TTL, with answers in sending order."""

    sent: int = 0
    pending: int = 0  # probes without answer yet
    answers: dict[int, Answer | None] = field(default_factory=dict)  # None without a reply
    flow_answers: dict[int, Answer | None] = field(default_factory=dict)
    compared: dict[int, list[Answer | None]] = field(default_factory=dict)  # answers by compared flow

    @property
    def replies(self) -> list[Answer]:
        """Answered probes of the main flow."""
        return [answer for _, answer in sorted(self.answers.items()) if answer is not None]

    @property
    def is_silent(self) -> bool:
        return not any(self.answers.values())

    @property
    def router(self) -> str | None:
        """The address that replied to most probes."""
        addresses = [answer.address for answer in self.replies]
        if len(set(addresses)) <= 1:  # as nearly always; a round of many targets comes here often
            return addresses[0] if addresses else None
        return Counter(addresses).most_common(1)[0][0]


class RouteSearch:
    """The state of a search; TTLs `low` to `high` are probed so far, 0 before."""

    def __init__(self, max_hops: int, attempts: int, max_packets: int | None, expected: EarlierRoute | None) -> None:
        self.expected = expected
        self.low = self.high = 0
        self.join: Join | None = None
        self.hops: dict[int, HopProbes] = {}
        self.replies_to_pings = False
        self.distance: int | None = None
        self._max_hops = max_hops
        self._attempts = attempts
        self._packets_left = max_packets
        self._has_repeated = False
        self.has_compared = False

    def hop(self, ttl: int) -> HopProbes:
        return self.hops.setdefault(ttl, HopProbes())

    def note_distance(self, answer: Answer | None) -> None:
        """Learn from the reply to a probe of ample TTL."""
        if answer is not None and answer.event == REACHED:
            self.replies_to_pings = True
            if answer.reply_ttl is not None and answer.reply_ttl > 0:
                self.distance = min(distance(answer.reply_ttl), self._max_hops)

    @property
    def is_awaiting(self) -> bool:
        """Whether any probe is unresolved."""
        return any(hop.pending for hop in self.hops.values())

    @property
    def reached_at(self) -> int | None:
        """The lowest TTL that reached the destination."""
        return min((ttl for ttl in self.hops if self._has(ttl, REACHED)), default=None)

    @property
    def end(self) -> int | None:
        """TTL of the destination, else of the first final error."""
        reached_at = self.reached_at
        if reached_at is not None:
            return reached_at
        return min((ttl for ttl, hop in self.hops.items() if _error(hop) is not None), default=None)

    @property
    def last_reply(self) -> int:
        return max((ttl for ttl, hop in self.hops.items() if not hop.is_silent), default=0)

    def begin(self) -> None:
        """Put the empty window at the destination's expected distance, else at `WINDOW_HOPS`."""
        expected = 0 if self.expected is None else len(self.expected.hops)
        is_sure = self.expected is not None and self.expected.reached
        high = expected if is_sure else self.distance or expected or WINDOW_HOPS
        self.high = min(high, self._max_hops)
        self.low = self.high + 1

    def above(self) -> list[int]:
        """TTLs beyond the window, while the destination is not reached."""
        if self.end is not None:
            return []
        top = self.hops.get(self.high)
        expects_reply = self.expected is not None and self.expected.reached and self.high == len(self.expected.hops)
        least = max(self._attempts, 2)
        if expects_reply and top is not None and top.is_silent and top.sent < least:
            # A lost reply must not make the route look longer.
            return [self.high] * (least - top.sent)
        sure = len(self.expected.hops) if self.expected is not None and self.expected.reached else 0
        last = self._max_hops if self.replies_to_pings else max(self.last_reply, sure) + GAP_HOPS
        first, self.high = self.high + 1, max(self.high, min(last, self.high + WINDOW_HOPS, self._max_hops))
        return list(range(first, self.high + 1))

    def confirms(self) -> list[int]:
        """TTLs to probe again before the route's end is believed.

        First neighbouring hops with the same router: the route may have changed. Else the silent hop before the
        destination, or beyond the last reply.
        """
        end = self.end
        doubled = self._doubled()
        if doubled:
            return doubled[: self._packets_to_confirm()]
        if end is not None and end != self.reached_at:
            return []
        if end is None:
            is_as_before = self.expected is not None and not self.expected.reached and not self.replies_to_pings
            gap = [ttl for ttl in range(self.high - GAP_HOPS + 1, self.high + 1) if ttl > self.last_reply]
            gap = [ttl for ttl in gap if ttl >= self.low]
            is_enough = sum(self.hop(ttl).sent for ttl in gap) >= self._least_to_confirm()
            return [] if is_as_before or is_enough else gap[: self._packets_to_confirm()]
        hop = self.hops.get(end - 1)
        is_expected = (
            self.expected is not None
            and self.expected.reached
            and len(self.expected.hops) == end
            and self.expected.at(end - 1) is None
        )
        if hop is None or end - 1 < self.low or not hop.is_silent or is_expected:
            return []
        return [end - 1] * min(CONFIRM_BATCH, self._least_to_confirm() - hop.sent, self._packets_to_confirm())

    def _doubled(self) -> list[int]:
        """TTLs of neighbouring hops with the same router, unless expected so: one for each probe due of
        `DOUBLED_PROBES`."""
        ttls: list[int] = []
        for ttl in range(self.low, self.high):
            router = self.hop(ttl).router
            is_known = self.expected is not None and self.expected.at(ttl) == self.expected.at(ttl + 1) == router
            if router is None or router != self.hop(ttl + 1).router or is_known or ttl + 1 == self.reached_at:
                continue
            ttls += [each for each in (ttl, ttl + 1) for _ in range(self.hop(each).sent, DOUBLED_PROBES)]
        return ttls

    def _least_to_confirm(self) -> int:
        """Unanswered probes after which nobody is there to reply."""
        loses = any(hop.replies and len(hop.replies) < len(hop.answers) for hop in self.hops.values())
        return MOST_ATTEMPTS if loses else CONFIRM_PROBES

    def _packets_to_confirm(self) -> int:
        # Beyond a target's limit, as many more as hops.
        if self._packets_left is None:
            return MOST_ATTEMPTS
        return max(0, self._packets_left + self._max_hops - sum(hop.sent for hop in self.hops.values()))

    @property
    def lost_beyond(self) -> int:
        return sum(len(hop.answers) for ttl, hop in self.hops.items() if ttl > self.last_reply)

    def repeats(self, shared: Collection[int]) -> list[int]:
        """TTLs of further attempts, without `shared` hops."""
        if self._has_repeated:
            return []
        self._has_repeated = True
        stop = self.end if self.end is not None else self.last_reply
        ttls = [ttl for ttl in range(self.low, stop + 1) if ttl not in shared]
        wanted = [ttl for attempt in range(1, self._attempts) for ttl in ttls if self.hop(ttl).sent <= attempt]
        if self._packets_left is None:
            return wanted
        sent = sum(hop.sent for hop in self.hops.values())
        return wanted[: max(0, self._packets_left - sent)]

    def routers(self, ttl: int) -> list[str]:
        """Routers of all flows at a TTL, the main flow's first."""
        hop = self.hops.get(ttl)
        if hop is None:
            return []
        answers = [*hop.replies, *(answer for answer in hop.flow_answers.values() if answer is not None)]
        return list(dict.fromkeys([*([hop.router] if hop.router else []), *(answer.address for answer in answers)]))

    def flow_rtts_ms(self) -> list[list[float | None]]:
        """RTTs by compared flow; None without the destination's reply."""
        hop = self.hops.get(self.reached_at or 0, HopProbes())
        return [
            [answer.rtt_ms if answer is not None and answer.event == REACHED else None for answer in answers]
            for _, answers in sorted(hop.compared.items())
        ]

    def made_hop(self, ttl: int) -> Hop:
        hop = self.hops.get(ttl, HopProbes())
        routers = self.routers(ttl)
        mpls = next((answer.mpls for answer in hop.replies if answer.mpls and answer.address == hop.router), ())
        rtts_ms = tuple(None if answer is None else answer.rtt_ms for _, answer in sorted(hop.answers.items()))
        is_end = ttl == self.end and ttl != self.reached_at
        return Hop(
            ttl=ttl,
            address=routers[0] if routers else None,
            rtts_ms=rtts_ms,
            mpls=mpls[:MOST_LABELS],
            error=_error(hop) if is_end else None,
            others=tuple(routers[1 : 1 + MOST_OTHERS]),
        )

    def _has(self, ttl: int, event: str) -> bool:
        hop = self.hops[ttl]
        for answers in (hop.answers, hop.flow_answers):
            for answer in answers.values():
                if answer is not None and answer.event == event:
                    return True
        return False


def _error(hop: HopProbes) -> str | None:
    return next((answer.event for answer in hop.replies if answer.event not in (EXCEEDED, REACHED)), None)


def made_hops(searches: Sequence[RouteSearch], rank: int) -> tuple[Hop, ...]:
    """All hops of a search, with hops of joined searches."""
    search = searches[rank]
    stop = search.end if search.end is not None else search.last_reply
    if stop == 0 and search.join is None:
        return ()
    stop = max(stop, search.join.ttl if search.join is not None else 0)
    return tuple(_hop_at(searches, rank, ttl) for ttl in range(1, stop + 1))


def _hop_at(searches: Sequence[RouteSearch], rank: int, ttl: int) -> Hop:
    search = searches[rank]
    own = True
    while search.join is not None and ttl < search.join.ttl:
        search, own = searches[search.join.rank], False
    hop = search.made_hop(ttl)
    if own:
        return hop
    # Silence towards another target says nothing of this one.
    rtts_ms = hop.rtts_ms if hop.address is not None else ()
    return Hop(ttl=ttl, address=hop.address, rtts_ms=rtts_ms, mpls=hop.mpls, is_inferred=True)
