"""The counter of each session of a reflector, and how many packets are answered. All of it is bounded."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

COUNTERS = 1 << 32
# A sender opens a session in each cycle; this many cycles of a test may be late at once.
MOST_SESSIONS_PER_PEER = 256
MOST_BUCKETS = 65_536
# A peer that was quiet may send this long at its maximum rate at once.
BURST_S = 1.0


@dataclass(slots=True)
class SenderSession:
    """A sender's packets from a port with an SSID."""

    counter: int = 0  # number of the next reply
    sent_counter: int = 0  # last reply with known send time
    sent_ns: int = 0


class SenderSessions:
    """The sessions of all peers; least recently used go first, a peer's own before others'."""

    def __init__(self, most: int, most_per_peer: int = MOST_SESSIONS_PER_PEER) -> None:
        self._most = most
        self._most_per_peer = most_per_peer
        self._count = 0
        self._of_peer: OrderedDict[bytes, OrderedDict[bytes, SenderSession]] = OrderedDict()

    def __len__(self) -> int:
        return self._count

    def take_numbers(self, address: bytes, senders: Iterable[bytes]) -> tuple[list[SenderSession], list[int]]:
        """Number each packet's reply in its session; `senders` are port and SSID."""
        of_peer = self._of_peer.get(address)
        if of_peer is None:
            of_peer = self._of_peer[address] = OrderedDict()
        self._of_peer.move_to_end(address)
        sessions, numbers = [], []
        for sender in senders:
            session = of_peer.get(sender)
            if session is None:
                session = self._add(of_peer, sender)
            else:
                of_peer.move_to_end(sender)
            sessions.append(session)
            numbers.append(session.counter)
            session.counter = (session.counter + 1) % COUNTERS
        return sessions, numbers

    def _add(self, of_peer: OrderedDict[bytes, SenderSession], sender: bytes) -> SenderSession:
        if len(of_peer) >= self._most_per_peer:
            of_peer.popitem(last=False)
            self._count -= 1
        elif self._count >= self._most:
            self._forget_oldest()
        session = of_peer[sender] = SenderSession()
        self._count += 1
        return session

    def _forget_oldest(self) -> None:
        address, sessions = next(item for item in self._of_peer.items() if item[1])
        sessions.popitem(last=False)
        self._count -= 1
        # The last peer is that of the packet that needs the room.
        if not sessions and address != next(reversed(self._of_peer)):
            del self._of_peer[address]


@dataclass(slots=True)
class ReplyBucket:
    """Permits `per_s` events a second, and as many at once after an idle second."""

    per_s: float
    tokens: float
    filled_at_s: float

    def fill(self, now_s: float) -> int:
        """Fill the bucket; return the events permitted now."""
        most = max(1.0, self.per_s * BURST_S)
        self.tokens = min(most, self.tokens + (now_s - self.filled_at_s) * self.per_s)
        self.filled_at_s = now_s
        return int(self.tokens)


@dataclass(slots=True)
class RateCap:
    """Reply rates to each address and in total. Thread-safe; times are monotonic seconds."""

    per_peer_per_s: float
    total_per_s: float
    _buckets: OrderedDict[bytes, ReplyBucket] = field(default_factory=OrderedDict)
    _total: ReplyBucket | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def permits(self, wanted: Mapping[bytes, int], now_s: float) -> list[int]:
        """Count and return permitted replies, in order of `wanted`."""
        permitted = []
        with self._lock:
            if self._total is None:
                self._total = self._new(self.total_per_s, now_s)
            left = self._total.fill(now_s)
            for address, count in wanted.items():
                bucket = self._buckets.get(address)
                if bucket is None:
                    if len(self._buckets) >= MOST_BUCKETS:
                        self._buckets.popitem(last=False)
                    bucket = self._buckets[address] = self._new(self.per_peer_per_s, now_s)
                of_address = min(count, bucket.fill(now_s))
                # What the total forbids has used the rate of the address too.
                bucket.tokens -= of_address
                permitted.append(min(of_address, left))
                left -= permitted[-1]
            self._total.tokens -= sum(permitted)
        return permitted

    @staticmethod
    def _new(per_s: float, now_s: float) -> ReplyBucket:
        return ReplyBucket(per_s, per_s * BURST_S, now_s)
