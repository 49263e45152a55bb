"""Copies of packets in a capture, as those of all interfaces and of mirrored ports have them: `RecentPackets`.

A retransmission is no copy: hosts give it another IP identification (RFC 6864), as tcptrace tells them apart. IPv6 has
none, and some hosts send 0: there the same TCP header, stamps of TCP included, makes a packet a likely copy, and so
many of a connection's packets that no loss explains it make likely copies sure. Linux answers a SYN with 0 too, but
sends none again within a second.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MS = 1_000_000
LONGEST_APART_NS = 10 * MS
LIKELY_APART_NS = 1 * MS
"""Retransmissions come an RTT later at least, which may be less than this in a local network."""
LEAST_COPIED_RATIO = 0.25
"""Of the packets with data: half of them where each was captured twice."""
MOST_RECENT = 10_000
"""Of a direction: what 10 Gbit/s have in 10 ms."""
MOST_RECENT_DATA = 128
IP_IDS = 1 << 16


@dataclass(frozen=True, slots=True)
class _Data:
    """Bytes [begin, end) of a packet."""

    at_ns: int
    ip_id: int
    begin: int
    end: int


@dataclass(slots=True)
class RecentPackets:
    """The newest packets of a direction, and how many `copies` of them were left out. `likely_copies` are places among
    the packets that were kept."""

    copies: int = 0
    likely_copies: list[int] = field(default_factory=list)
    _at_ns: dict[tuple[int, bytes, int], int] = field(default_factory=dict)
    _data: list[_Data] = field(default_factory=list)

    def is_copy(self, key: tuple[int, bytes, int], is_sure: bool, at_ns: int, place: int) -> bool:
        """Note the next packet, by its identification, TCP header and length; whether it is a copy of another. A copy
        that is not sure is noted as a likely one."""
        before_ns = self._at_ns.pop(key, None)
        self._at_ns[key] = at_ns
        if len(self._at_ns) > MOST_RECENT:
            del self._at_ns[next(iter(self._at_ns))]
        apart_ns = None if before_ns is None else abs(at_ns - before_ns)
        if apart_ns is None or apart_ns > (LONGEST_APART_NS if is_sure else LIKELY_APART_NS):
            return False
        if is_sure:
            self.copies += 1
            return True
        self.likely_copies.append(place)
        return False

    def is_copied_part(self, ip_id: int, begin: int, payload_bytes: int, at_ns: int, newest: int) -> bool:
        """Note the data of the next packet, which begins at `begin`; whether it is part of a packet captured before, or
        several of those joined: hosts and network cards cut and join packets between two places of capture."""
        data = _Data(at_ns, ip_id, begin, begin + payload_bytes)
        is_old = ip_id and data.end <= newest
        if is_old and any(_is_part(data, other) or _is_joined(data, other) for other in self._data):
            self.copies += 1
            return True
        self._data.append(data)
        del self._data[:-MOST_RECENT_DATA]
        return False

    def forget(self) -> None:
        """Keep the counts alone."""
        self._at_ns.clear()
        self._data.clear()
        self.likely_copies.clear()


def _is_part(data: _Data, other: _Data) -> bool:
    """Parts have the identifications from that of the whole on; but for the last they have the same length."""
    size, whole, gap = data.end - data.begin, other.end - other.begin, data.begin - other.begin
    if gap < 0 or data.end > other.end or size >= whole or abs(data.at_ns - other.at_ns) > LONGEST_APART_NS:
        return False
    number = (data.ip_id - other.ip_id) % IP_IDS
    return gap % number == 0 and gap // number >= size if number else gap == 0


def _is_joined(data: _Data, other: _Data) -> bool:
    """The whole has the identification of its first part."""
    is_near = abs(data.at_ns - other.at_ns) <= LONGEST_APART_NS
    return is_near and (data.ip_id, data.begin) == (other.ip_id, other.begin) and data.end > other.end
