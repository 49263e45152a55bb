"""Transfer, pause, transfer again on the same connection: how long until the rate is back (slow start after idle).

In: an `IdleRestartSpec`. Out: an `IdleRestart`. The kernel's counters of the own socket (TCP_INFO) are read every
`SAMPLE_S` while data are sent; the rate is that at which they are acknowledged. A system with
net.ipv4.tcp_slow_start_after_idle = 1, the default, halves its congestion window for each retransmission timeout of a
pause, down to its initial window (RFC 2861, RFC 5681 section 4.1). The far end is `serve`, which reads and discards.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from probes.contract import Deadline, ProbeError
from probes.ping.addresses import FAMILY
from probes.throughput.hosts.inventory import read_sysctls
from probes.throughput.socket_counters import ConnectionCounters, counters_of

SETTING = "net.ipv4.tcp_slow_start_after_idle"
GREETING = b"soundings idle-restart 1\n"
"""First bytes of a connection, so that nothing else is taken for a test, and no test is sent to another service."""

BLOCK = bytes(65_536)
SAMPLE_S = 0.005
CONNECT_S = 5.0
DRAIN_S = 10.0
BACK_RATIO = 0.9
"""Share of the rate before the pause at which it is back."""
RATE_OVER_S = 0.1
"""Least time over which a rate is taken; two round trips where those are longer."""
GREW = 1.25
"""Growth from the third to the last quarter of the first transfer, from which on its rate is not steady."""
KEPT_RATIO = 0.75
"""Share of the window before the pause, from which on it was kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRestartSpec:
    """Two transfers of `duration_s` to `address` and `port`, with a pause of `pause_s` between them."""

    address: str
    port: int
    family: int = 4
    duration_s: float = 5.0
    pause_s: float = 5.0


@dataclass(frozen=True, slots=True)
class TransferSample:
    """The counters of a connection at a moment, in seconds from the start of its transfer."""

    at_s: float
    counters: ConnectionCounters


@dataclass(frozen=True, slots=True)
class IdleRestart:
    """Result. `back_s` is the time from the start of the second transfer until the rate of the first was reached again,
    None if it was not; `rise_s` is that of the first transfer from its own start. Windows are in segments; `setting` is
    the sender's sysctl, None if unknown."""

    before_bps: float
    is_steady: bool
    cwnd_before: int
    cwnd_after: int
    timeout_s: float
    rtt_ms: float
    pause_s: float
    duration_s: float
    rise_s: float | None
    back_s: float | None
    setting: str | None

    @property
    def restarted(self) -> bool | None:
        """Whether the window was reduced in the pause; None where that cannot be told."""
        if not self.is_steady or self.pause_s <= self.timeout_s:
            return None
        return self.cwnd_after < KEPT_RATIO * self.cwnd_before


class IdleRestartFailure(ProbeError):
    """The far end could not be reached, or ended the connection."""


def measure(spec: IdleRestartSpec) -> IdleRestart:
    """Run both transfers. Raises `ProbeError`."""
    setting = read_sysctls([SETTING]).get(SETTING)
    try:
        with socket.create_connection((spec.address, spec.port), timeout=CONNECT_S) as sender:
            sender.sendall(GREETING)
            _await_greeting(sender)
            sender.setblocking(False)
            first = _send(sender, spec.duration_s)
            _drain(sender)
            time.sleep(spec.pause_s)
            second = _send(sender, spec.duration_s)
    except OSError as error:
        reason = error.strerror or str(error)
        raise IdleRestartFailure(
            f"{spec.address} port {spec.port}: {reason}; is `idle-restart --listen` running there?"
        ) from error
    return evaluate(first, second, spec, setting)


def serve(port: int, deadline: Deadline, *, address: str = "", peer: str | None = None) -> int:
    """Take one test, from `peer` if it is given; returns the bytes received. Raises `ProbeError` if none came."""
    family = FAMILY[6] if ":" in address else FAMILY[4]
    with socket.create_server((address, port), family=family) as listener:
        while not deadline.passed:
            listener.settimeout(max(0.01, deadline.remaining_s))
            with contextlib.suppress(TimeoutError):
                connection, (host, *_) = listener.accept()
                with connection:
                    if peer is None or host == peer:
                        received = _discard(connection, deadline)
                        if received is not None:
                            return received
    raise IdleRestartFailure(f"no test came to port {port}")


def evaluate(
    first: Sequence[TransferSample], second: Sequence[TransferSample], spec: IdleRestartSpec, setting: str | None
) -> IdleRestart:
    """Compare both transfers by their samples."""
    if len(first) < 8 or len(second) < 2:
        raise IdleRestartFailure("too few samples of the connection; give a longer --duration-s")
    last = first[-1].counters
    over_s = max(RATE_OVER_S, 2.0 * last.rtt_ms / 1e3)
    end_s = first[-1].at_s
    third, fourth = (_mean_bps(first, begin * end_s, (begin + 0.25) * end_s) for begin in (0.5, 0.75))
    return IdleRestart(
        before_bps=fourth,
        is_steady=0.0 < fourth <= GREW * third,
        # Read after the pause and before the first byte, at which the kernel reduces it.
        cwnd_before=second[0].counters.cwnd_segments,
        cwnd_after=second[1].counters.cwnd_segments,
        timeout_s=last.timeout_s,
        rtt_ms=last.rtt_ms,
        pause_s=spec.pause_s,
        duration_s=spec.duration_s,
        rise_s=_reached_s(first, BACK_RATIO * fourth, over_s),
        back_s=_reached_s(second, BACK_RATIO * fourth, over_s),
        setting=setting,
    )


def sentence(result: IdleRestart) -> str:
    """The conclusion, or that it cannot be told."""
    if result.pause_s <= result.timeout_s:
        return (
            f"Cannot tell: the pause of {result.pause_s:g} s is no longer than the retransmission timeout,"
            f" {result.timeout_s:.2f} s; give a longer --pause-s"
        )
    if not result.is_steady:
        return "Cannot tell: the rate was not steady before the pause; give a longer --duration-s"
    windows = f"the congestion window was {result.cwnd_before} segments before the pause of {result.pause_s:g} s"
    back = (
        f"the rate was not back within {result.duration_s:g} s"
        if result.back_s is None
        else f"the rate was back after {result.back_s:.2f} s, {result.back_s / result.rtt_ms * 1e3:.1f} RTTs"
    )
    if not result.restarted:
        return f"No slow start after idle: {windows} and {result.cwnd_after} after it; {back}"
    advice = (
        f"; for transfers with pauses set {SETTING} to 0 at the sender" if result.setting not in ("0", None) else ""
    )
    return f"Slow start after idle: {windows} and {result.cwnd_after} after it; {back}{advice}"


def _send(sender: socket.socket, duration_s: float) -> list[TransferSample]:
    """Send as fast as the connection takes it; returns its samples, the first from before the first byte."""
    began = time.monotonic()
    samples = [TransferSample(0.0, counters_of(sender))]
    while (at_s := time.monotonic() - began) < duration_s:
        with contextlib.suppress(BlockingIOError):
            sender.send(BLOCK)
        if at_s - samples[-1].at_s >= SAMPLE_S or len(samples) == 1:
            samples.append(TransferSample(time.monotonic() - began, counters_of(sender)))
        select.select([], [sender], [], SAMPLE_S)
    return samples


def _drain(sender: socket.socket) -> None:
    """Wait until all data are acknowledged, so that the pause is one of the connection."""
    deadline = Deadline(DRAIN_S)
    while counters_of(sender).outstanding_bytes > 0:
        if deadline.passed:
            raise IdleRestartFailure(f"the data were not acknowledged within {DRAIN_S:g} s")
        time.sleep(SAMPLE_S)


def _await_greeting(sender: socket.socket) -> None:
    if sender.recv(len(GREETING)) != GREETING:
        raise IdleRestartFailure("another service listens there")


def _discard(connection: socket.socket, deadline: Deadline) -> int | None:
    """Read until the end of the connection; None for a connection that is no test."""
    received, buffer = 0, bytearray(1 << 20)
    with contextlib.suppress(OSError):
        connection.settimeout(CONNECT_S)
        if connection.recv(len(GREETING)) != GREETING:
            return None
        connection.sendall(GREETING)
        connection.settimeout(max(0.01, deadline.remaining_s))
        while size := connection.recv_into(buffer):
            received += size
    return received


def _mean_bps(samples: Sequence[TransferSample], begin_s: float, end_s: float) -> float:
    inside = [sample for sample in samples if begin_s <= sample.at_s <= end_s]
    if len(inside) < 2:
        return 0.0
    acknowledged = inside[-1].counters.acknowledged_bytes - inside[0].counters.acknowledged_bytes
    return 8.0 * acknowledged / (inside[-1].at_s - inside[0].at_s)


def _reached_s(samples: Sequence[TransferSample], rate_bps: float, over_s: float) -> float | None:
    """When a rate was first reached over a time of this length: the begin of that time."""
    older = 0
    for sample in samples:
        while samples[older].at_s < sample.at_s - over_s:
            older += 1
        begin = samples[max(0, older - 1)]
        length_s = sample.at_s - begin.at_s
        acknowledged = sample.counters.acknowledged_bytes - begin.counters.acknowledged_bytes
        if length_s >= over_s and 8.0 * acknowledged >= rate_bps * length_s:
            return begin.at_s
    return None
