"""Copies of packets in a capture of several interfaces or mirrored ports. Retransmissions differ in IP identification
(RFC 6864), as in tcptrace; without it, packets of equal TCP headers are left out as copies where they are at least a
quarter of the data packets."""

from __future__ import annotations

from dataclasses import dataclass, field

MS = 1_000_000
LONGEST_APART_NS = 10 * MS
# A retransmission follows an RTT later at least, in a local network possibly sooner than this.
LIKELY_APART_NS = 1 * MS
# Share of the packets with data: half of them where each was captured twice.
LEAST_COPIED_RATIO = 0.25
# Packets of a direction that 10 Gbit/s carry in 10 ms.
MOST_RECENT = 10_000
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
    """The newest packets of a direction, and its copies."""

    copies: int = 0  # packets left out
    likely_copies: list[int] = field(default_factory=list)  # places among the packets that were kept
    _at_ns: dict[tuple[int, bytes, int], int] = field(default_factory=dict)
    _data: list[_Data] = field(default_factory=list)

    def is_copy(self, key: tuple[int, bytes, int], is_sure: bool, at_ns: int, place: int) -> bool:
        """Note the next packet, and return whether it certainly is a copy; a likely copy is noted."""
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
        """Note the next packet's data, and return whether it is part of an earlier packet, or several joined ones
        (segmentation offload)."""
        data = _Data(at_ns, ip_id, begin, begin + payload_bytes)
        is_old = ip_id and data.end <= newest
        if is_old and any(_is_part(data, other) or _is_joined(data, other) for other in self._data):
            self.copies += 1
            return True
        self._data.append(data)
        del self._data[:-MOST_RECENT_DATA]
        return False

    def forget(self) -> None:
        """Forget all but the counts."""
        self._at_ns.clear()
        self._data.clear()
        self.likely_copies.clear()


def _is_part(data: _Data, other: _Data) -> bool:
    """Parts have consecutive identifications and, but for the last, the same length."""
    size, whole, gap = data.end - data.begin, other.end - other.begin, data.begin - other.begin
    if gap < 0 or data.end > other.end or size >= whole or abs(data.at_ns - other.at_ns) > LONGEST_APART_NS:
        return False
    number = (data.ip_id - other.ip_id) % IP_IDS
    return gap % number == 0 and gap // number >= size if number else gap == 0


def _is_joined(data: _Data, other: _Data) -> bool:
    # The whole has the identification of its first part.
    is_near = abs(data.at_ns - other.at_ns) <= LONGEST_APART_NS
    return is_near and (data.ip_id, data.begin) == (other.ip_id, other.begin) and data.end > other.end
