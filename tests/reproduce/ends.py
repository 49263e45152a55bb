"""The two ends of a transfer: a receiver that discards the data, and a sender that samples its own sockets.

`python -m tests.reproduce.ends receive|send ADDRESS JSON`, run inside the sites' namespaces: the receiver's address and
a `Plan`. The receiver prints "listening", the sender "sending" when its streams are connected, and at the end a JSON
list of samples: the monotonic time and, of each stream, the kernel's TCP_INFO as `StreamInfo`. iperf3 is not used here,
since it neither sends in blocks that wait for an answer nor reads all streams' counters at the same moment.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import NamedTuple

PORT = 5300
CHUNK = bytes(65_536)
WINDOW_PER_BUFFER = 1.217
"""The window that Linux advertises for a requested receive buffer, with packets of 1,500 bytes."""
SO_RCVBUFFORCE = 33
SO_MAX_PACING_RATE = 47
TCP_INFO = struct.Struct("8x24I4Q6I4Q2I2Q4I")
TCP_INFO_FIELDS = """
    rto ato snd_mss rcv_mss unacked sacked lost retrans fackets
    last_data_sent last_ack_sent last_data_recv last_ack_recv
    pmtu rcv_ssthresh rtt rttvar snd_ssthresh snd_cwnd advmss reordering rcv_rtt rcv_space total_retrans
    pacing_rate max_pacing_rate bytes_acked bytes_received
    segs_out segs_in notsent_bytes min_rtt data_segs_in data_segs_out
    delivery_rate busy_time rwnd_limited sndbuf_limited delivered delivered_ce bytes_sent bytes_retrans
    dsack_dups reord_seen rcv_ooopack snd_wnd
"""
"""`struct tcp_info` of linux/tcp.h up to `tcpi_snd_wnd`, without its first eight bytes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A transfer. `window_bytes` None leaves the receiver's window to the kernel.

    With `block_bytes` the sender waits after each block until the receiver has answered `exchanges` times.
    `pacing_mbps` is the maximum rate of each stream, as for a slow host.
    """

    duration_s: float
    control: str = "reno"
    streams: int = 1
    window_bytes: int | None = None
    block_bytes: int | None = None
    exchanges: int = 1
    mss_bytes: int | None = None
    pacing_mbps: float | None = None
    sample_s: float = 0.1


class StreamInfo(NamedTuple):
    """State of a stream, in bytes, packets and µs: times are those in which there was data to send, and in which the
    receiver's window or the send buffer limited it. Window and RTT are current values."""

    acked_bytes: int
    resent: int
    window_segments: int
    rtt_us: int
    busy_us: int
    peer_limited_us: int
    buffer_limited_us: int


class Sample(NamedTuple):
    """All streams at the same moment of the machine's monotonic clock."""

    at_s: float
    streams: list[StreamInfo]


def stream_info(connection: socket.socket) -> StreamInfo:
    """The kernel's information about a stream."""
    values = TCP_INFO.unpack(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO.size))
    info = dict(zip(TCP_INFO_FIELDS.split(), values, strict=True))
    return StreamInfo(
        acked_bytes=info["bytes_acked"],
        resent=info["total_retrans"],
        window_segments=info["snd_cwnd"],
        rtt_us=info["rtt"],
        busy_us=info["busy_time"],
        peer_limited_us=info["rwnd_limited"],
        buffer_limited_us=info["sndbuf_limited"],
    )


def receive(address: str, plan: Plan) -> None:
    """Accept the streams of a transfer and read them to their end."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if plan.mss_bytes is not None:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, plan.mss_bytes)
    listener.bind((address, PORT))
    listener.listen(plan.streams)
    print("listening", flush=True)
    with selectors.DefaultSelector() as selector:
        for _ in range(plan.streams):
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if plan.window_bytes is not None:
                # Not earlier: with a small buffer the kernel would disable window scaling, and round to whole segments.
                connection.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, round(plan.window_bytes / WINDOW_PER_BUFFER))
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, plan.window_bytes)
            selector.register(connection, selectors.EVENT_READ, _Inbox(plan))
        while selector.get_map():
            for key, _ in selector.select():
                assert isinstance(key.fileobj, socket.socket)
                if not key.data.take(key.fileobj):
                    selector.unregister(key.fileobj)
                    key.fileobj.close()


class _Inbox:
    """The data received by a stream: answers when a block is complete, and every single byte that requests an
    answer."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._left_bytes = plan.block_bytes
        self._asked = 0

    def take(self, connection: socket.socket) -> bool:
        """Read once, and answer if due. False at the end of the stream."""
        received_bytes = len(
            connection.recv(len(CHUNK) if self._left_bytes is None else max(1, min(len(CHUNK), self._left_bytes)))
        )
        if self._left_bytes is not None and received_bytes:
            self._left_bytes -= min(received_bytes, self._left_bytes)
            if self._left_bytes == 0:
                connection.sendall(b"!")
                self._asked += 1
                if self._asked >= self._plan.exchanges:
                    self._left_bytes, self._asked = self._plan.block_bytes, 0
        return received_bytes > 0


def send(address: str, plan: Plan) -> list[Sample]:
    """Send for the plan's duration. Returns the samples."""
    streams = [_connected(address, plan) for _ in range(plan.streams)]
    print("sending", flush=True)
    begin_s = time.monotonic()
    samples, next_s = [], begin_s
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            stream.setblocking(False)
            selector.register(stream, selectors.EVENT_WRITE, _Outbox(plan))
        while (now_s := time.monotonic()) < begin_s + plan.duration_s:
            if now_s >= next_s:
                samples.append(Sample(now_s, [stream_info(stream) for stream in streams]))
                next_s = now_s + plan.sample_s
            for key, _ in selector.select(max(0.0, next_s - now_s)):
                assert isinstance(key.fileobj, socket.socket)
                selector.modify(key.fileobj, key.data.step(key.fileobj), key.data)
    return samples


class _Outbox:
    """The next step of a stream: it writes, or in blocks it writes, waits for the answer, and requests another if
    planned."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._left_bytes = plan.block_bytes
        self._answers = 0

    def step(self, connection: socket.socket) -> int:
        """Write or read as far as possible. Returns the events to wait for next."""
        if self._left_bytes is None:
            connection.send(CHUNK)
            return selectors.EVENT_WRITE
        if self._left_bytes:
            self._left_bytes -= connection.send(CHUNK[: self._left_bytes])
            return selectors.EVENT_READ if self._left_bytes == 0 else selectors.EVENT_WRITE
        self._answers += len(connection.recv(1))
        if self._answers >= self._plan.exchanges:
            self._left_bytes, self._answers = self._plan.block_bytes, 0
            return selectors.EVENT_WRITE
        connection.send(b"?")
        return selectors.EVENT_READ


def _connected(address: str, plan: Plan) -> socket.socket:
    stream = socket.socket()
    try:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, plan.control.encode())
    except FileNotFoundError:
        sys.exit(f"this kernel has no {plan.control}: load it with `modprobe tcp_{plan.control}`")
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if plan.mss_bytes is not None:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, plan.mss_bytes)
    if plan.pacing_mbps is not None:
        stream.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, round(plan.pacing_mbps * 1e6 / 8))
    stream.connect((address, PORT))
    return stream


def be_on_time() -> None:
    """Request real-time priority, like the relay: an end that is preempted within a call blocks its socket for as long,
    and its delayed data is sent in a single burst."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def main(end: str, address: str, plan_json: str) -> None:
    """Run that end of the transfer."""
    plan = Plan(**json.loads(plan_json))
    be_on_time()
    if end == "receive":
        receive(address, plan)
    else:
        print(json.dumps(send(address, plan)))


def as_json(plan: Plan) -> str:
    """The plan as command-line argument."""
    return json.dumps(asdict(plan))


if __name__ == "__main__":
    main(*sys.argv[1:])
