"""A bounded capture of a test's TCP headers at either end, as pcap with stamps in nanoseconds. Needs CAP_NET_RAW. The
kernel writes packets of the test's peer and port into rings (`probes.transfers.capture.selection`). The connections
with the most bytes are the test's data."""

from __future__ import annotations

import ipaddress
import socket
import struct
import zlib
from collections import Counter
from types import TracebackType
from typing import Self

from probes.transfers.capture.ring import NS, Frame, Ring, RingFrames
from probes.transfers.capture.selection import SNAP_BYTES, STRETCHES, filter_program
from probes.transfers.spec import MOST_CAPTURE_BYTES, MOST_CAPTURED_PACKETS, CapturedHeaders, CapturedPart

LINK_RAW = 101
# Of the packets: from the start, and in the stretches of each density; the last has to last longest.
SHARES = (0.4, 0.12, 0.12, 0.12, 0.24)


class HeaderCapture:
    """Captures while the context is open; `reason` says why not, else None."""

    def __init__(self, peer: str, port: int, most_packets: int, streams: int | None = None) -> None:
        """Keep at most `most_packets` and `MOST_CAPTURED_PACKETS`, of the `streams` largest connections or all."""
        self.reason: str | None = None
        self._peer = ipaddress.ip_address(peer.partition("%")[0])
        self._port = port
        self._most = min(most_packets, MOST_CAPTURED_PACKETS)
        self._streams = streams
        self._rings: list[Ring] = []

    def __enter__(self) -> Self:
        try:
            for stretches, share in zip((None, *STRETCHES), SHARES, strict=True):
                program = filter_program(str(self._peer), self._port, stretches)
                self._rings.append(Ring(program, max(1, int(self._most * share))))
        except PermissionError:
            self.reason = "capturing needs CAP_NET_RAW"
        except OSError as error:
            self.reason = f"cannot capture: {error.strerror}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for ring in self._rings:
            ring.close()

    def captured(self) -> CapturedHeaders | None:
        """The packets, or None. Call it once, at the end."""
        if self.reason is not None:
            return None
        start, *stretches = (ring.read() for ring in self._rings)
        interface = _interface_of(start.frames)
        scale = 1.0
        while True:
            frames, parts = joined(start, stretches, scale)
            frames = [frame for frame in frames if _is_of_interface(frame, interface)]
            if self._streams is not None:
                frames = largest_connections(frames, self._streams)
            if not frames:
                return None
            packed = zlib.compress(pcap(frames), 6)
            if len(packed) <= MOST_CAPTURE_BYTES:
                break
            scale *= min(0.9, MOST_CAPTURE_BYTES / len(packed))
        left_out = 0
        if parts:
            until_ns = parts[0].until_ns or 0
            of_start = sum(1 for frame in frames if frame.at_ns <= until_ns)
            all_of_start = sum(1 for frame in start.frames if frame.at_ns <= until_ns)
            after = start.missed + len(start.frames) - all_of_start
            # Of what was not kept it is not known which connection and interface it was of.
            left_out = max(0, round(after * of_start / all_of_start) - (len(frames) - of_start))
        return CapturedHeaders(pcap_zlib=packed, packets=len(frames), left_out_packets=left_out, parts=parts)


def joined(
    start: RingFrames, stretches: list[RingFrames], scale: float = 1.0
) -> tuple[list[Frame], tuple[CapturedPart, ...]]:
    """Join frames, each ring's from where the one before was full.

    Parts are empty if the first ring has all; `scale` is the share kept of full rings and the first.
    """
    first = _cut(start, scale)
    frames, until_ns = list(first.frames), first.until_ns
    if until_ns is None:
        return frames, ()
    parts = [CapturedPart(until_ns=until_ns)]
    for level, ring in zip(STRETCHES, stretches, strict=True):
        cut = _cut(ring, scale) if ring.missed else ring
        last_ns = cut.until_ns
        if last_ns is not None and last_ns <= until_ns:
            continue
        frames += [frame for frame in cut.frames if frame.at_ns > until_ns]
        parts.append(CapturedPart(period_bytes=level.period_bytes, kept_bytes=level.kept_bytes, until_ns=last_ns))
        if last_ns is None:
            break
        until_ns = last_ns
    return frames, tuple(parts)


def _cut(ring: RingFrames, scale: float) -> RingFrames:
    kept = ring.frames if scale == 1.0 else ring.frames[: max(1, int(len(ring.frames) * scale))]
    return RingFrames(kept, ring.missed + len(ring.frames) - len(kept))


def _interface_of(frames: list[Frame]) -> int | None:
    # Interface with most packets: below VLANs and bridges packets repeat.
    return Counter(frame.interface for frame in frames).most_common(1)[0][0] if frames else None


def _is_of_interface(frame: Frame, interface: int | None) -> bool:
    # On the loopback each packet passes twice.
    if frame.interface != interface:
        return False
    return not (frame.is_outgoing and interface == socket.if_nametoindex("lo"))


def largest_connections(frames: list[Frame], count: int) -> list[Frame]:
    wire_bytes: Counter[frozenset[bytes]] = Counter()
    for frame in frames:
        wire_bytes[_ends(frame.headers)] += frame.wire_bytes
    kept = {ends for ends, _ in wire_bytes.most_common(count)}
    return [frame for frame in frames if _ends(frame.headers) in kept]


def _ends(headers: bytes) -> frozenset[bytes]:
    is_ipv6 = headers[0] >> 4 == 6
    at = 40 if is_ipv6 else (headers[0] & 0x0F) * 4
    source, destination = (headers[8:24], headers[24:40]) if is_ipv6 else (headers[12:16], headers[16:20])
    return frozenset((source + headers[at : at + 2], destination + headers[at + 2 : at + 4]))


def pcap(frames: list[Frame]) -> bytes:
    """Write packets without link headers as a capture file."""
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAP_BYTES, LINK_RAW)]
    for frame in frames:
        seconds, nanoseconds = divmod(frame.at_ns, NS)
        parts += (struct.pack("<IIII", seconds, nanoseconds, len(frame.headers), frame.wire_bytes), frame.headers)
    return b"".join(parts)
