"""Layouts of STAMP packets (RFC 8762, sections 4.2 and 4.3; RFC 8972, sections 3 and 4). No I/O.

Timestamps are NTP's or, with bit Z of the error estimate, PTP's.
"""

from __future__ import annotations

import hmac
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from probes.packets.arrays import Bools, Bytes, Int64s

OPEN_BYTES = 44
AUTHENTICATED_BYTES = 112
HMAC_BYTES = 16
# Bytes of an authenticated packet that its HMAC covers (RFC 8762, section 4.4).
HMACED_BYTES = 96
# A TWAMP-Light packet without padding: sequence number, timestamp, error estimate (RFC 5357, section 4.1.2).
SHORTEST_REQUEST_BYTES = 14
# Up to the sender's error estimate; some reflectors leave out what follows.
SHORTEST_REPLY_BYTES = 38

NS_PER_S = 1_000_000_000
# 1970 in seconds since 1900.
NTP_EPOCH_S = 2_208_988_800
NTP_ERA_S = 1 << 32
NTP_HALF_ERA_S = 1 << 31

SYNCHRONISED = 0x8000
PTP = 0x4000
LARGEST_SCALE = 63
LARGEST_MULTIPLIER = 255

Uint64s = npt.NDArray[np.uint64]


def _layout(size: int, **fields: tuple[int, str]) -> np.dtype[np.void]:
    return np.dtype(
        {
            "names": list(fields),
            "formats": [kind for _, kind in fields.values()],
            "offsets": [at for at, _ in fields.values()],
            "itemsize": size,
        }
    )


# A sender's packet, by whether it is authenticated.
REQUEST = {
    False: _layout(OPEN_BYTES, sequence=(0, ">u4"), sent=(4, ">u8"), estimate=(12, ">u2"), ssid=(14, ">u2")),
    True: _layout(
        AUTHENTICATED_BYTES,
        sequence=(0, ">u4"),
        sent=(16, ">u8"),
        estimate=(24, ">u2"),
        ssid=(26, ">u2"),
        hmac=(96, f"({HMAC_BYTES},)u1"),
    ),
}

# A reflector's reply, by whether it is authenticated.
REPLY = {
    False: _layout(
        OPEN_BYTES,
        sequence=(0, ">u4"),
        sent=(4, ">u8"),
        estimate=(12, ">u2"),
        ssid=(14, ">u2"),
        received=(16, ">u8"),
        sender_sequence=(24, ">u4"),
        sender_sent=(28, ">u8"),
        sender_estimate=(36, ">u2"),
        sender_ttl=(40, "u1"),
    ),
    True: _layout(
        AUTHENTICATED_BYTES,
        sequence=(0, ">u4"),
        sent=(16, ">u8"),
        estimate=(24, ">u2"),
        ssid=(26, ">u2"),
        received=(32, ">u8"),
        sender_sequence=(48, ">u4"),
        sender_sent=(64, ">u8"),
        sender_estimate=(72, ">u2"),
        sender_ttl=(80, "u1"),
        hmac=(96, f"({HMAC_BYTES},)u1"),
    ),
}

# A shorter unauthenticated reply has no TTL of the sender's packet.
SENDER_TTL_END = 41


def base_bytes(is_authenticated: bool) -> int:
    """Length of a packet without extensions."""
    return AUTHENTICATED_BYTES if is_authenticated else OPEN_BYTES


def fields(rows: Bytes, layout: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """View the packets that begin the C-contiguous rows."""
    view: npt.NDArray[np.void] = np.ndarray(
        len(rows), layout, buffer=rows, strides=(rows.strides[0],) if len(rows) else None
    )
    return view


def to_ntp(unix_ns: Int64s) -> Uint64s:
    """Convert Unix ns to NTP, rounded up so that `to_unix_ns` is exact."""
    seconds, rest_ns = np.divmod(unix_ns, NS_PER_S)
    fraction = ((rest_ns.astype(np.uint64) << np.uint64(32)) + np.uint64(NS_PER_S - 1)) // np.uint64(NS_PER_S)
    within_era = ((seconds + NTP_EPOCH_S) % NTP_ERA_S).astype(np.uint64)
    return (within_era << np.uint64(32)) | fraction


def to_unix_ns(stamps: Uint64s, estimates: npt.NDArray[Any]) -> Int64s:
    """Convert to Unix ns, 0 for none, by bit Z of `estimates`.

    NTP seconds below half an era are after 2036 (RFC 4330, section 3).
    """
    stamps = stamps.astype(np.uint64)
    high, low = (stamps >> np.uint64(32)).astype(np.int64), (stamps & np.uint64(0xFFFFFFFF)).astype(np.uint64)
    ntp_s = np.where(high < NTP_HALF_ERA_S, high + NTP_ERA_S, high) - NTP_EPOCH_S
    ntp_ns = ntp_s * NS_PER_S + ((low * np.uint64(NS_PER_S)) >> np.uint64(32)).astype(np.int64)
    ptp_ns = high * NS_PER_S + low.astype(np.int64)
    unix_ns: Int64s = np.where(estimates & PTP, ptp_ns, ntp_ns)
    return np.where(stamps == 0, 0, unix_ns)


def encode_estimate(error_s: float | None) -> int:
    """Encode an error estimate, rounded up (RFC 4656, section 4.1.2)."""
    if error_s is None:
        # The multiplier must not be 0.
        return 1
    units = max(1.0, error_s * 2**32)
    scale = max(0, math.ceil(math.log2(units / LARGEST_MULTIPLIER)))
    if scale > LARGEST_SCALE:
        return 1
    return SYNCHRONISED | scale << 8 | min(LARGEST_MULTIPLIER, math.ceil(math.ldexp(units, -scale)))


def decode_estimate(estimate: int) -> float | None:
    """Decode to seconds; None if unsynchronised or invalid."""
    multiplier = estimate & 0xFF
    if not estimate & SYNCHRONISED or multiplier == 0:
        return None
    return float(multiplier * 2.0 ** ((estimate >> 8 & LARGEST_SCALE) - 32))


def digest(key: bytes, data: bytes) -> bytes:
    """HMAC-SHA-256 truncated to 128 bits (RFC 8762, section 4.4)."""
    return hmac.digest(key, data, "sha256")[:HMAC_BYTES]


def is_authentic(key: bytes, packet: bytes) -> bool:
    """Whether an authenticated packet's HMAC is valid."""
    expected = digest(key, packet[:HMACED_BYTES])
    return hmac.compare_digest(expected, packet[HMACED_BYTES:AUTHENTICATED_BYTES])


def has_reply_length(lengths: Int64s, is_authenticated: bool) -> Bools:
    return lengths >= (AUTHENTICATED_BYTES if is_authenticated else SHORTEST_REPLY_BYTES)
