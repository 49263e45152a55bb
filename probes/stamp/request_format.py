"""The layout of a sender's packets with their extensions. No I/O.

An HMAC TLV is at the end, where some reflectors move it.
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
    """The layout of a session's packets: `packet_bytes` of UDP payload."""

    is_authenticated: bool
    packet_bytes: int
    has_extensions: bool

    @classmethod
    def of_size(cls, packet_bytes: int, *, is_authenticated: bool) -> RequestFormat:
        """Lay out this size, or more if authentication needs it."""
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
        """Where the HMAC TLV begins and its coverage ends."""
        return self.packet_bytes - HMAC_BYTES

    @property
    def head_bytes(self) -> int:
        """Length before the shared padding."""
        return self.base_bytes + len(self.extensions(0))

    @property
    def tail_bytes(self) -> int:
        return self.packet_bytes - self.head_bytes

    def extensions(self, dscp: int) -> bytes:
        """Extensions without end padding; HMAC values are zero."""
        if not self.has_extensions:
            return b""
        mac = tlv.header(tlv.HMAC, tlv.HMAC_TLV_BYTES) + bytes(tlv.HMAC_TLV_BYTES) if self.is_authenticated else b""
        before = tlv.class_of_service(dscp) + tlv.follow_up()
        padding_bytes = self.packet_bytes - self.base_bytes - len(before) - tlv.HEADER.size - len(mac)
        padding = tlv.header(tlv.EXTRA_PADDING, padding_bytes)
        return before + padding + (bytes(padding_bytes) + mac if self.is_authenticated else b"")

    def sign(self, key: bytes, head: bytearray) -> None:
        if self.has_extensions:
            value_at = self.hmac_at + tlv.HEADER.size
            covered = bytes(head[:SEQUENCE_BYTES] + head[self.base_bytes : self.hmac_at])
            head[value_at : value_at + tlv.HMAC_TLV_BYTES] = digest(key, covered)
        head[HMACED_BYTES:AUTHENTICATED_BYTES] = digest(key, bytes(head[:HMACED_BYTES]))

    def has_valid_extensions(self, key: bytes, reply: bytes) -> bool:
        """Whether a reply's HMAC TLV verifies, flags included."""
        value_at = self.hmac_at + tlv.HEADER.size
        covered = reply[:SEQUENCE_BYTES] + reply[self.base_bytes : self.hmac_at]
        return hmac.compare_digest(digest(key, covered), reply[value_at : value_at + tlv.HMAC_TLV_BYTES])
