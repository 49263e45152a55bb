"""Throughput tests in mesh.toml and plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from monitor.mesh.document.entries import TestKeys, TestName
from monitor.mesh.kinds.kind import (
    DAY_S,
    Length,
    ListeningPort,
    MeshKind,
    fields_of_slot,
    literal_or_none,
    on_both_transports,
)
from probes.throughput.kind import KIND as THROUGHPUT
from probes.throughput.spec import ThroughputSlot
from probes.toml.keys import Text, meaning
from probes.toml.tables import Table
from probes.transfers.spec import MOST_CAPTURED_PACKETS, ThroughputSpec

if TYPE_CHECKING:
    from monitor.mesh.models import Path, Slot
    from monitor.mesh.plan_rows import PlannedSite

# Slot time beyond the transfer: connecting, exchanging results, clock differences.
SLOT_MARGIN_S = 5
REVERSED_BY = "reverse"
# The largest block that iperf3 accepts, and the largest payload of UDP over IPv4.
MOST_BLOCK_BYTES, MOST_DATAGRAM_BYTES = 2**20, 65_507
# A row with the intervals of its test.
RESULT_BYTES = 2000


Streams = Annotated[int, Meta(ge=1, le=128)]
WindowBytes = Annotated[int, Meta(ge=2048, le=2**30)]
MssBytes = Annotated[int, Meta(ge=88, le=9216)]
BlockBytes = Annotated[int, Meta(ge=64, le=MOST_BLOCK_BYTES)]
Mbps = Annotated[float, Meta(ge=0.1, le=400_000)]
Priority = Annotated[
    int,
    Meta(ge=-100, le=100),
    meaning("Of two tests that need the same time, the test with the higher priority gets it."),
]
SlipS = Annotated[
    Annotated[int, Meta(ge=0, le=DAY_S)] | None,
    meaning("Maximum delay of a start. Default: anywhere in the period."),
]

Protocol = Literal["tcp", "udp"]
PROTOCOLS = get_args(Protocol)


class FlowKeys(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a transfer but its rate."""

    duration_s: Annotated[int, Meta(ge=1, le=3600), meaning("Length of the test, without the omitted start.")] = 10
    omit_s: Annotated[int, Meta(ge=0, le=60), meaning("Time at the start that is left out of the average.")] = 0
    streams: Annotated[Streams, meaning("Number of parallel streams.")] = 1
    port: Annotated[int, Meta(ge=1, le=65_535), meaning("Port on which the server listens.")] = 5201
    protocol: Annotated[Protocol, meaning("Transport protocol. UDP needs `rate_mbps`.")] = "tcp"
    window_bytes: Annotated[
        WindowBytes | None,
        meaning("Socket buffer of each stream. Default: the operating system's."),
    ] = None
    congestion_control: Annotated[
        Text | None,
        meaning('Congestion control of the sender, such as "cubic". Default: the operating system\'s.'),
    ] = None
    mss_bytes: Annotated[
        MssBytes | None,
        meaning("Maximum segment size. Default: the operating system's."),
    ] = None
    block_bytes: Annotated[
        BlockBytes | None,
        meaning("Length of each write; for UDP, of a datagram. Default: iperf3's, 128 KiB for TCP."),
    ] = None
    zero_copy: Annotated[
        bool, meaning("Whether the sender uses sendfile, which saves CPU time at 10 Gbit/s and more. TCP only.")
    ] = False


class TransferKeys(FlowKeys, frozen=True, kw_only=True):
    """Settings of a throughput test but its rate. With `reverse` the receiver connects, and the sender listens."""

    reverse: Annotated[
        bool, meaning("Whether the receiver opens the connection, for a sender that can be reached.")
    ] = False
    capture_packets: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_CAPTURED_PACKETS)] | None,
        meaning(
            "Packets whose headers each end keeps, the first of the test, as far as limits.toml of its site allows "
            "(default there: none). TCP only. Default: none."
        ),
    ] = None


RateBps = Annotated[int, Meta(ge=100_000, le=400_000_000_000)]


class ThroughputSettings(TransferKeys, frozen=True, kw_only=True):
    rate_bps: RateBps | None = None
    pacing_bps: RateBps | None = None

    @property
    def parameters(self) -> dict[str, object]:
        """Fields of the `probes.transfers.spec.ThroughputSpec` without the addresses; options only where set."""
        options = {
            "protocol": None if self.protocol == "tcp" else self.protocol,
            "rate_bps": self.rate_bps,
            "pacing_bps": self.pacing_bps,
            "zero_copy": self.zero_copy or None,
            "window_bytes": self.window_bytes,
            "congestion_control": self.congestion_control,
            "mss_bytes": self.mss_bytes,
            "block_bytes": self.block_bytes,
            REVERSED_BY: self.reverse or None,
            "capture_packets": self.capture_packets,
        }
        return {
            "duration_s": self.duration_s,
            "omit_s": self.omit_s,
            "streams": self.streams,
            "port": self.port,
            **{name: value for name, value in options.items() if value is not None},
        }


class ThroughputEntry(TestKeys, TransferKeys, frozen=True, tag="throughput"):
    """Transfer over TCP or UDP with iperf3."""

    name: TestName
    every_s: Annotated[
        int,
        Meta(ge=10, le=DAY_S),
        meaning("Period: each path has a test in each period.", "3600 (seconds from one test to the next)"),
    ]
    rate_mbps: Annotated[
        Mbps | None,
        meaning("Rate of all streams together. Default: no limit."),
    ] = None
    pacing_mbps: Annotated[
        Mbps | None,
        meaning("Rate at which the sender's kernel paces all streams together, without bursts (fq). Default: none."),
    ] = None
    priority: Priority = 0
    slip_s: SlipS = None

    @property
    def meets_public_servers(self) -> bool:
        """Whether a public server may be an end without an agent."""
        return True

    @property
    def parameters(self) -> dict[str, object]:
        settings = {name: getattr(self, name) for name in TransferKeys.__struct_fields__}
        rate_bps, pacing_bps = bits(self.rate_mbps), bits(self.pacing_mbps)
        return ThroughputSettings(**settings, rate_bps=rate_bps, pacing_bps=pacing_bps).parameters


def bits(megabits: float | None) -> int | None:
    return None if megabits is None else round(1e6 * megabits)


def check_transfer(table: Table) -> None:
    """Report contradicting keys of a transfer."""
    if table.get("protocol") == "udp" and not table.has("rate_mbps"):
        table.problem("UDP keeps to no rate by itself; write rate_mbps = 10 (what to send)", "protocol")
    if table.get("protocol") == "udp" and table.get("zero_copy"):
        table.problem("UDP has no zero copy; remove zero_copy, or use TCP", "zero_copy")
    if table.get("protocol") == "udp" and table.has("capture_packets"):
        table.problem("packets of UDP are not captured; remove capture_packets, or use TCP", "capture_packets")
    if table.get("protocol") == "udp" and (table.get("block_bytes") or 0) > MOST_DATAGRAM_BYTES:
        table.problem(f"a UDP datagram has at most {MOST_DATAGRAM_BYTES} bytes; lower block_bytes", "block_bytes")


def _filling_s(parameters: Mapping[str, Any]) -> int:
    return int(parameters["duration_s"]) + int(parameters["omit_s"])


def _slot_s(parameters: Mapping[str, Any]) -> int:
    return _filling_s(parameters) + SLOT_MARGIN_S


def _length(test: ThroughputEntry) -> Length:
    reason = f"{test.duration_s} s + {test.omit_s} s omitted + {SLOT_MARGIN_S} s between tests"
    return Length(_slot_s(test.parameters), reason)


def is_reversed(path: Path, parameters: Mapping[str, Any]) -> bool:
    """Whether the receiver connects: by parameters, unless an end behind NAT must."""
    if path.source.behind_nat:
        return False
    return path.destination.behind_nat or bool(parameters.get(REVERSED_BY, False))


def throughput_slot(slot: Slot, site: PlannedSite, secrets: Mapping[str, str | None]) -> ThroughputSlot:
    """Slot of a throughput test: the source sends, and connects unless `is_reversed`."""
    path = slot.measurement.path
    is_reverse = is_reversed(path, slot.parameters)
    client, server = (path.destination, path.source) if is_reverse else (path.source, path.destination)
    # The listening end compares the source with the address that it sees.
    source = client.source_for(server) if client.site_id == site.pk else client.address_for(server)
    ends = {"address": server.address_for(client), "family": path.family, "source": literal_or_none(source)}
    parameters = {**slot.parameters, **ends, **secrets, REVERSED_BY: is_reverse}
    if not server.site.has_agent and server.iperf3_ports is not None:
        first, last = server.iperf3_ports
        parameters |= {"port": first, "last_port": last, "one_time_key": None, "peer_iperf3": None}
    role = "client" if client.site_id == site.pk else "server"
    return ThroughputSlot(
        **{**fields_of_slot(slot, site), "role": role}, spec=msgspec.convert(parameters, ThroughputSpec)
    )


def iperf3_servers(host: str, port: int, protocol: Protocol) -> Sequence[ListeningPort]:
    """Servers of a transfer; UDP also exchanges settings by TCP on this port."""
    return on_both_transports(host, port) if protocol == "udp" else (ListeningPort(host, "TCP", port),)


def _servers(test: ThroughputEntry, source: str, destination: str) -> Sequence[ListeningPort]:
    return iperf3_servers(source if test.reverse else destination, test.port, test.protocol)


KIND = MeshKind(
    kind=THROUGHPUT,
    entry=ThroughputEntry,
    check_table=check_transfer,
    table="throughput_test",
    result_bytes=lambda parameters: RESULT_BYTES,
    length=_length,
    slot=throughput_slot,
    servers=_servers,
    reversed_by=REVERSED_BY,
    hourly_keys=True,
    filling_s=_filling_s,
    slot_s=_slot_s,
)
