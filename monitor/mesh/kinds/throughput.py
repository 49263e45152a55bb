"""Throughput tests of mesh.toml, and their part of a plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from monitor.mesh.document.entries import Doc, IntegerRange, TestKind, TestName
from monitor.mesh.document.fields import Fields
from monitor.mesh.kinds.kind import DAY_S, Length, MeshKind, own_address
from probes.throughput.kind import KIND as THROUGHPUT
from probes.throughput.spec import ThroughputSlot, ThroughputSpec

if TYPE_CHECKING:
    from monitor.mesh.models import Site, Slot

SLOT_MARGIN_S = 5
"""Slot time beyond the transfer: connecting, exchanging results, clock differences."""
RESULT_BYTES = 2000
"""A row with the intervals of its test."""
THROUGHPUT_NUMBERS = {
    "duration_s": IntegerRange(1, 3600, 10, "Length of the test, without the omitted start."),
    "omit_s": IntegerRange(0, 60, 0, "Time at the start that is left out of the average."),
    "streams": IntegerRange(1, 128, 1, "Number of parallel streams."),
    "port": IntegerRange(1, 65_535, 5201, "Port on which the server listens."),
    "window_bytes": IntegerRange(2048, 2**30, None, "Socket buffer of each stream. Default: the operating system's."),
    "mss_bytes": IntegerRange(88, 9216, None, "Maximum segment size. Default: the operating system's."),
}
RATE_BPS = IntegerRange(100_000, 400_000_000_000)
PROTOCOLS = ("tcp", "udp")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputSettings:
    """Settings of a throughput test. With `reverse` the receiver connects, and the sender listens."""

    duration_s: int = 10
    omit_s: int = 0
    streams: int = 1
    port: int = 5201
    protocol: Annotated[str, Doc("Transport protocol. UDP needs `rate_mbps`.")] = "tcp"
    rate_bps: Annotated[int | None, Doc("Rate of all streams together. Default: no limit.", key="rate_mbps")] = None
    window_bytes: int | None = None
    congestion_control: Annotated[
        str | None, Doc('Congestion control of the sender, such as "cubic". Default: the operating system\'s.')
    ] = None
    mss_bytes: int | None = None
    reverse: Annotated[bool, Doc("Whether the receiver opens the connection, for a sender that can be reached.")] = (
        False
    )

    @property
    def parameters(self) -> dict[str, object]:
        """Fields of the `probes.throughput.spec.ThroughputSpec` without the addresses; options only where set."""
        options = {
            "protocol": None if self.protocol == "tcp" else self.protocol,
            "rate_bps": self.rate_bps,
            "window_bytes": self.window_bytes,
            "congestion_control": self.congestion_control,
            "mss_bytes": self.mss_bytes,
            "reverse": self.reverse or None,
        }
        return {
            "duration_s": self.duration_s,
            "omit_s": self.omit_s,
            "streams": self.streams,
            "port": self.port,
            **{name: value for name, value in options.items() if value is not None},
        }


@dataclass(frozen=True, slots=True)
class ThroughputEntry(ThroughputSettings):
    """`slip_s` is the maximum delay of its start, None for anywhere in its period; the higher `priority` wins."""

    name: TestName
    every_s: Annotated[int, Doc("Period: each path has a test in each period.")]
    priority: Annotated[
        int, Doc("Of two tests that need the same time, the test with the higher priority gets it.")
    ] = 0
    slip_s: Annotated[int | None, Doc("Maximum delay of a start. Default: anywhere in the period.")] = None

    kind: TestKind = dataclasses.field(default="throughput", init=False)


def _read(table: Fields, name: str) -> ThroughputEntry:
    test = ThroughputEntry(
        name=name,
        every_s=table.integer("every_s", low=10, high=DAY_S, example="3600 (seconds from one test to the next)"),
        duration_s=_number(table, "duration_s"),
        omit_s=_number(table, "omit_s"),
        streams=_number(table, "streams"),
        port=_number(table, "port"),
        protocol=table.text("protocol", default="tcp"),
        rate_bps=round(1e6 * table.number("rate_mbps", low=RATE_BPS.low / 1e6, high=RATE_BPS.high / 1e6, default=0))
        or None,
        window_bytes=_number(table, "window_bytes") or None,
        congestion_control=table.text("congestion_control", default="") or None,
        mss_bytes=_number(table, "mss_bytes") or None,
        reverse=table.flag("reverse", default=False),
        priority=table.integer("priority", low=-100, high=100, default=0),
        slip_s=_slip_s(table),
    )
    table.one_of("protocol", test.protocol, PROTOCOLS)
    if test.protocol == "udp" and not table.has("rate_mbps"):
        table.problem("UDP keeps to no rate by itself; write rate_mbps = 10 (what to send)", "protocol")
    return test


def _number(table: Fields, key: str) -> int:
    """A number of a throughput test; 0 where it is not set and has no default."""
    of = THROUGHPUT_NUMBERS[key]
    return table.integer(key, low=of.low, high=of.high, default=of.default or 0)


def _slip_s(table: Fields) -> int | None:
    slip_s = table.integer("slip_s", low=0, high=DAY_S, default=DAY_S)
    return slip_s if table.has("slip_s") else None


def _filling_s(parameters: Mapping[str, Any]) -> int:
    return int(parameters["duration_s"]) + int(parameters["omit_s"])


def _slot_s(parameters: Mapping[str, Any]) -> int:
    return _filling_s(parameters) + SLOT_MARGIN_S


def _length(test: ThroughputEntry) -> Length:
    reason = f"{test.duration_s} s + {test.omit_s} s omitted + {SLOT_MARGIN_S} s between tests"
    return Length(_slot_s(test.parameters), reason)


def _slot(slot: Slot, site: Site, secrets: Mapping[str, str | None]) -> ThroughputSlot:
    """Slot of a throughput test. The source of a path sends; it connects too, unless the test is `reverse`."""
    path, test = slot.measurement.path, slot.measurement.test
    is_reverse = slot.parameters.get("reverse", False)
    client, server = (path.destination, path.source) if is_reverse else (path.source, path.destination)
    ends = {"address": server.address, "family": path.family, "source": own_address(client)}
    parameters = {**slot.parameters, **ends, **secrets}
    return ThroughputSlot(
        slot_id=slot.pk,
        path_id=path.pk,
        test=test.name,
        role="client" if client.site_id == site.pk else "server",
        starts_at=slot.starts_at,
        ends_at=slot.ends_at,
        spec=msgspec.convert(parameters, ThroughputSpec),
    )


KIND = MeshKind(
    kind=THROUGHPUT,
    entry=ThroughputEntry,
    read=_read,
    table="throughput_test",
    result_bytes=lambda parameters: RESULT_BYTES,
    length=_length,
    key_docs={key: number.sentence for key, number in THROUGHPUT_NUMBERS.items()},
    slot=_slot,
    filling_s=_filling_s,
    slot_s=_slot_s,
)
