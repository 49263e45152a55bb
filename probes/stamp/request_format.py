"""The packets that a sender makes: which extensions they have, and where. No I/O.

With room for them, a packet has a Class of Service TLV (the DSCP at the far end), a Follow-Up Telemetry TLV (true send
times of replies), an Extra Padding TLV up to its size, and, if authenticated, an HMAC TLV over all of them at its end:
reflectors return TLVs in the same places, but some move an HMAC TLV there.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from probes.stamp import tlv
from probes.stamp.packets import AUTHENTICATED_BYTES, HMACED_BYTES, base_bytes, digest

COS_BYTES = tlv.HEADER.size + tlv.CLASS_OF_SERVICE_BYTES
FOLLOW_UP_BYTES = tlv.HEADER.size + tlv.FOLLOW_UP_BYTES
HMAC_BYTES = tlv.HEADER.size + tlv.HMAC_TLV_BYTES
EXTENSION_BYTES = COS_BYTES + FOLLOW_UP_BYTES + tlv.HEADER.size
SEQUENCE_BYTES = 4


@dataclass(frozen=True, slots=True)
class RequestFormat:
    """The layout of the packets of a session: `packet_bytes` of UDP payload."""

    is_authenticated: bool
    packet_bytes: int
    has_extensions: bool

    @classmethod
    def of_size(cls, packet_bytes: int, *, is_authenticated: bool) -> RequestFormat:
        """Packets of this size; authenticated ones are larger where it takes less than they need."""
        base = base_bytes(is_authenticated)
        extensions = EXTENSION_BYTES + (HMAC_BYTES if is_authenticated else 0)
        if packet_bytes < base_bytes(False) + EXTENSION_BYTES:
            return cls(is_authenticated, max(packet_bytes, base), False)
        return cls(is_authenticated, max(packet_bytes, base + extensions), True)

    @property
    def base_bytes(self) -> int:
        return base_bytes(self.is_authenticated)

    @property
    def cos_at(self) -> int:
        return self.base_bytes

    @property
    def follow_up_at(self) -> int:
        return self.cos_at + COS_BYTES

    @property
    def hmac_at(self) -> int:
        """Where the HMAC TLV of an authenticated packet begins, and what it covers ends."""
        return self.packet_bytes - HMAC_BYTES

    @property
    def head_bytes(self) -> int:
        """Length of what is written into each packet; the rest is padding that all share."""
        return self.base_bytes + len(self.extensions(0))

    @property
    def tail_bytes(self) -> int:
        return self.packet_bytes - self.head_bytes

    def extensions(self, dscp: int) -> bytes:
        """The bytes behind the base packet, without padding at the end; the value of an HMAC TLV is zero."""
        if not self.has_extensions:
            return b""
        mac = tlv.header(tlv.HMAC, tlv.HMAC_TLV_BYTES) + bytes(tlv.HMAC_TLV_BYTES) if self.is_authenticated else b""
        before = tlv.class_of_service(dscp) + tlv.follow_up()
        padding_bytes = self.packet_bytes - self.base_bytes - len(before) - tlv.HEADER.size - len(mac)
        padding = tlv.header(tlv.EXTRA_PADDING, padding_bytes)
        return before + padding + (bytes(padding_bytes) + mac if self.is_authenticated else b"")

    def sign(self, key: bytes, head: bytearray) -> None:
        """Write the HMACs of an authenticated packet."""
        if self.has_extensions:
            value_at = self.hmac_at + tlv.HEADER.size
            covered = bytes(head[:SEQUENCE_BYTES] + head[self.base_bytes : self.hmac_at])
            head[value_at : value_at + tlv.HMAC_TLV_BYTES] = digest(key, covered)
        head[HMACED_BYTES:AUTHENTICATED_BYTES] = digest(key, bytes(head[:HMACED_BYTES]))

    def has_valid_extensions(self, key: bytes, reply: bytes) -> bool:
        """Whether the HMAC TLV of a reply verifies; flags are part of what it covers."""
        value_at = self.hmac_at + tlv.HEADER.size
        covered = reply[:SEQUENCE_BYTES] + reply[self.base_bytes : self.hmac_at]
        return hmac.compare_digest(digest(key, covered), reply[value_at : value_at + tlv.HMAC_TLV_BYTES])
