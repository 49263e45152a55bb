"""Whose packets a reflector answers, how many, and the counter of each session. All of it is bounded."""

from __future__ import annotations

import base64
import ipaddress
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

COUNTERS = 1 << 32
MOST_SESSIONS_PER_PEER = 256
"""A sender opens a session in each cycle; this many cycles of a test may be late at once."""
MOST_BUCKETS = 65_536
BURST_S = 1.0
"""A peer that was quiet may send this long at its maximum rate at once."""


@dataclass(frozen=True, slots=True)
class Admission:
    """How a peer is answered: with its key, which its packets need too, or in the clear."""

    key: bytes | None = None


class Peers:
    """The hosts whose packets are answered: `keys` by address, None without a key, and whole `networks` with one key or
    none.

    An address with a key is answered with it only, even within a network.
    """

    def __init__(
        self, keys: Mapping[str, str | None], networks: Iterable[str] = (), network_key: str | None = None
    ) -> None:
        self._of_network = Admission(None if network_key is None else base64.b64decode(network_key))
        self._hosts = {
            ipaddress.ip_address(address).packed: Admission(None if key is None else base64.b64decode(key))
            for address, key in keys.items()
        }
        parsed = [ipaddress.ip_network(network) for network in networks]
        self._networks = [
            (
                len(network.network_address.packed),
                int(network.network_address),
                network.max_prefixlen - network.prefixlen,
            )
            for network in parsed
        ]

    def __len__(self) -> int:
        return len(self._hosts) + len(self._networks)

    @property
    def addresses(self) -> Iterable[bytes]:
        """The hosts of the plan, in network order; without those of `networks`."""
        return self._hosts.keys()

    def find(self, address: bytes) -> Admission | None:
        """The admission of an address in network order; None for an address that is no peer."""
        admission = self._hosts.get(address)
        if admission is not None:
            return admission
        number = int.from_bytes(address)
        for length, network, host_bits in self._networks:
            if length == len(address) and number >> host_bits == network >> host_bits:
                return self._of_network
        return None


@dataclass(slots=True)
class SenderSession:
    """A sender's packets from a port with an SSID: the number of the next reply, and the last reply whose send time is
    known."""

    counter: int = 0
    sent_counter: int = 0
    sent_ns: int = 0

    def take_number(self) -> int:
        """The number of a reply."""
        number = self.counter
        self.counter = (number + 1) % COUNTERS
        return number


class SenderSessions:
    """The sessions of all peers, the least recently used forgotten first; a peer's own before those of others."""

    def __init__(self, most: int, most_per_peer: int = MOST_SESSIONS_PER_PEER) -> None:
        self._most = most
        self._most_per_peer = most_per_peer
        self._count = 0
        self._of_peer: OrderedDict[bytes, OrderedDict[tuple[bytes, int], SenderSession]] = OrderedDict()

    def __len__(self) -> int:
        return self._count

    def get(self, address: bytes, port: bytes, ssid: int) -> SenderSession:
        """The session of a sender, new if there is none."""
        sessions = self._of_peer.setdefault(address, OrderedDict())
        self._of_peer.move_to_end(address)
        session = sessions.get((port, ssid))
        if session is not None:
            sessions.move_to_end((port, ssid))
            return session
        if len(sessions) >= self._most_per_peer:
            sessions.popitem(last=False)
            self._count -= 1
        elif self._count >= self._most:
            self._forget_oldest()
        session = self._of_peer.setdefault(address, sessions)[port, ssid] = SenderSession()
        self._count += 1
        return session

    def _forget_oldest(self) -> None:
        address, sessions = next((item for item in self._of_peer.items() if item[1]), (b"", None))
        if sessions is not None:
            sessions.popitem(last=False)
            self._count -= 1
            if not sessions:
                del self._of_peer[address]


@dataclass(slots=True)
class ReplyBucket:
    """Permits up to `per_s` events a second, and as many at once after a second without any."""

    per_s: float
    tokens: float
    filled_at_s: float

    def take(self, now_s: float) -> bool:
        """Whether an event is permitted now."""
        most = max(1.0, self.per_s * BURST_S)
        self.tokens = min(most, self.tokens + (now_s - self.filled_at_s) * self.per_s)
        self.filled_at_s = now_s
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@dataclass(slots=True)
class RateCap:
    """The rates of replies: to each address, and in total. Times in seconds of any clock that only rises. Reflectors in
    threads of their own may share it."""

    per_peer_per_s: float
    total_per_s: float
    _buckets: OrderedDict[bytes, ReplyBucket] = field(default_factory=OrderedDict)
    _total: ReplyBucket | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def permits(self, address: bytes, now_s: float) -> bool:
        """Whether a reply to this address is permitted now; counts it."""
        with self._lock:
            bucket = self._buckets.get(address)
            if bucket is None:
                if len(self._buckets) >= MOST_BUCKETS:
                    self._buckets.popitem(last=False)
                bucket = self._buckets[address] = self._new(self.per_peer_per_s, now_s)
            if self._total is None:
                self._total = self._new(self.total_per_s, now_s)
            return bucket.take(now_s) and self._total.take(now_s)

    @staticmethod
    def _new(per_s: float, now_s: float) -> ReplyBucket:
        return ReplyBucket(per_s, per_s * BURST_S, now_s)
