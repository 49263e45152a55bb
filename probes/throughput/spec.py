"""The fields of a throughput measurement: what is asked (`ThroughputSpec`) and what comes back (`ThroughputRun`).

Intervals are kept as columns of one length, with numbers summed over the streams and round trips averaged. Seconds
count from the start of the transfer, the omitted part included; an interval begins where the one before ended. A column
that the system does not tell is None as a whole.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from probes.contract import Outcome

Protocol = Literal["tcp", "udp"]


class ThroughputSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One memory-to-memory transfer from here to `address`, where a peer listens on `port`; with `reverse` from there
    to here.

    `rate_bps` is what to keep to, in all streams together; without it TCP takes what it gets. `window_bytes` is the
    socket buffer of both ends, None the system's own. `one_time_key` is known to both ends and nobody else.
    `peer_iperf3` is the other end's version of iperf3, as `3.12`, None where it is not known: builds authenticate alike
    only as far as they know of each other.
    """

    address: str
    family: Literal[4, 6] = 4
    source: str | None = None
    port: int = 5201
    protocol: Protocol = "tcp"
    duration_s: int = 10
    omit_s: int = 0
    streams: int = 1
    rate_bps: int | None = None
    window_bytes: int | None = None
    congestion_control: str | None = None
    mss_bytes: int | None = None
    reverse: bool = False
    one_time_key: str | None = None
    peer_iperf3: str | None = None

    @property
    def length_s(self) -> float:
        """How long it fills the path, what is left out included."""
        return float(self.duration_s + self.omit_s)


class SentIntervals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the sender saw. Windows and round trips are those at the end of each interval; `packets` are of UDP."""

    end_s: tuple[float, ...]
    sent_bytes: tuple[int, ...]
    retransmits: tuple[int, ...] | None = None
    cwnd_bytes: tuple[int, ...] | None = None
    peer_window_bytes: tuple[int, ...] | None = None
    rtt_ms: tuple[float, ...] | None = None
    rtt_variation_ms: tuple[float, ...] | None = None
    path_mtu_bytes: tuple[int, ...] | None = None
    packets: tuple[int, ...] | None = None


class ReceivedIntervals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the receiver read, in intervals of its own; what is behind the bytes is of UDP."""

    end_s: tuple[float, ...]
    received_bytes: tuple[int, ...]
    packets: tuple[int, ...] | None = None
    lost_packets: tuple[int, ...] | None = None
    jitter_ms: tuple[float, ...] | None = None


class CpuUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tool's share of one processor at one end, 0 to 1 and above with several threads, as it says itself.

    `wanted_ratio` is the share of the time in which its busiest thread ran or was ready and waited to run, by its
    system; None where that was not watched.
    """

    total_ratio: float
    user_ratio: float
    system_ratio: float
    wanted_ratio: float | None = None


class KernelCounts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the sender's kernel counted of its TCP streams, at the last look before the end (TCP_INFO, as `ss -ti`
    shows it). Times and round trips are means over the streams, the rest sums.

    Times run while there was something to send (`busy_s`): those with the peer's window used up and with the send
    buffer full are parts of it. `duplicates` are resent segments that the peer had already (RFC 2883).
    """

    age_s: float
    busy_s: float
    peer_window_limited_s: float
    send_buffer_limited_s: float
    resent_bytes: int
    duplicates: int
    reordering_seen: int
    delivery_rate_bps: float | None = None
    rtt_min_ms: float | None = None


class UdpCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Datagrams of a UDP test: sent, not arrived, arrived late, and their jitter (RFC 3550)."""

    packets: int
    lost_packets: int
    out_of_order: int | None
    jitter_ms: float


class Transfer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that was seen of a transfer. `omitted_s` is the length of the first part, which the tool leaves out of its
    figures; None is not known. Where only one end told of its intervals, the other's are None."""

    sent: SentIntervals | None = None
    received: ReceivedIntervals | None = None
    omitted_s: float = 0.0
    mss_bytes: int | None = None
    sender_cpu: CpuUse | None = None
    receiver_cpu: CpuUse | None = None
    kernel: KernelCounts | None = None
    udp: UdpCounts | None = None


class ThroughputRun(msgspec.Struct, frozen=True, kw_only=True, tag="throughput", tag_field="kind"):
    """One throughput test. `throughput_bps` is what the receiver got on average, the omitted part left out; None
    whenever the outcome is not `measured`. `asked_bps` is the rate that the sender was told to keep to."""

    target: str
    address: str | None
    family: Literal[4, 6]
    started_at: datetime
    outcome: Outcome
    protocol: Protocol = "tcp"
    reverse: bool = False
    streams: int = 1
    asked_bps: float | None = None
    duration_s: float | None = None
    throughput_bps: float | None = None
    sent_bytes: int | None = None
    received_bytes: int | None = None
    retransmits: int | None = None
    rtt_mean_ms: float | None = None
    congestion_control: str | None = None
    tool: str | None = None
    transfer: Transfer | None = None
    detail: str | None = None


class Served(msgspec.Struct, frozen=True, kw_only=True, tag="served", tag_field="kind"):
    """What the end that listened says of a slot, besides the `ThroughputRun` of the end that connected.

    `measured` is a test that it served, `missed` that nobody came; `detail` says it in words. `sends` tells that the
    data went from here, as with `reverse`; `kernel` is there then. `wanted_ratio` is as in `CpuUse`.
    """

    family: Literal[4, 6]
    started_at: datetime
    outcome: Outcome
    detail: str
    sends: bool = False
    wanted_ratio: float | None = None
    kernel: KernelCounts | None = None


def seen_from_both_ends(transfer: Transfer, served: Served) -> Transfer:
    """What was seen of a transfer, with what only the end that listened could see."""
    end = "sender_cpu" if served.sends else "receiver_cpu"
    use: CpuUse | None = getattr(transfer, end)
    if use is not None and served.wanted_ratio is not None:
        transfer = msgspec.structs.replace(
            transfer, **{end: msgspec.structs.replace(use, wanted_ratio=served.wanted_ratio)}
        )
    if served.kernel is not None:
        transfer = msgspec.structs.replace(transfer, kernel=served.kernel)
    return transfer
