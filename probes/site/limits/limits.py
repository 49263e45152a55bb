"""The limits that a site sets for its agent, which the centre cannot widen, and the checks against them.

`Limits` are the rules as `probes.site.limits.read` reads them from limits.toml; `limits.example.toml` shows every one.
Its `forbids_…` methods give the rule against a measurement, beginning with the rule's name, or None. The use of the
rules that count a day or an hour is kept by `probes.site.limits.usage`.
"""

from __future__ import annotations

import ipaddress
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from probes.ping.spec import PingSpec
from probes.site.limits.hours import contains
from probes.site.limits.keys import ALL_DAY, HourList, Hours, NetworkList, Number, described
from probes.site.limits.networks import Networks, forbids_address, is_within

FLOAT_SLACK = 1e-9


class FillsThePath(Protocol):
    """What is asked of a test that fills its path: for how long at most, and at which rate if at one."""

    @property
    def length_s(self) -> float: ...

    @property
    def rate_bps(self) -> int | None: ...


class PingLimits(msgspec.Struct, frozen=True, kw_only=True):
    min_spacing_s: Annotated[Number, described("between two packets to one address", 0.1)] = 0.1
    max_packets_per_s: Annotated[Number, described("of this agent in all", 5000)] = 5000.0
    hours: Hours = ALL_DAY


class ThroughputLimits(msgspec.Struct, frozen=True, kw_only=True):
    max_duration_s: Annotated[Number, described("of one test, its omitted start included", 60)] = 60.0
    max_minutes_per_day: Annotated[Number | None, described("of tests from here and to here, days in UTC", 60)] = None
    max_bits_per_day: Annotated[Number | None, described("sent and received by tests, days in UTC", 5e12)] = None
    hours: Hours = ALL_DAY
    peers: Annotated[
        NetworkList | None, described("may test to us; without it whoever may be measured", ["192.0.2.0/24"])
    ] = None


class DiskLimits(msgspec.Struct, frozen=True, kw_only=True):
    folder: Annotated[
        str, described("in which disk-to-disk tests may write a file; without one none may", "/var/lib/soundings/disk")
    ] = ""
    max_file_bytes: Annotated[Number, described("of such a file", 1e9)] = 1e9
    min_free_bytes: Annotated[Number, described("which such a file leaves on its file system", 1e9)] = 1e9


class CapacityLimits(msgspec.Struct, frozen=True, kw_only=True):
    max_packets_per_hour: Annotated[int, Meta(ge=0), described("to one address; a measurement is 184", 1500)] = 1500
    hours: Hours = ALL_DAY


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one site. Methods name the rule that forbids something, or give None."""

    networks: Networks = Networks()
    ping: PingLimits = PingLimits()
    throughput: ThroughputLimits = ThroughputLimits()
    capacity: CapacityLimits = CapacityLimits()
    disk: DiskLimits = DiskLimits()

    def forbids_address(self, address: str) -> str | None:
        """The rule against measuring a literal address. One that carries an IPv4 address counts as both."""
        return forbids_address(self.networks, address)

    def forbids_peer(self, address: str | None) -> str | None:
        """The rule against serving a test of a peer; None for `address` where the plan does not say who comes."""
        peers = self.throughput.peers
        if peers is None:
            return None if address is None else self.forbids_address(address)
        if address is None:
            return "throughput.peers: the plan does not say who comes"
        for network in (one for one in self.networks.forbidden if is_within(ipaddress.ip_address(address), (one,))):
            return f"networks.forbidden: {address} is in {network}"
        if not is_within(ipaddress.ip_address(address), peers):
            return f"throughput.peers: {address} is in none of them"
        return None

    def forbids_time(self, kind: str, begins_at: datetime, length_s: float) -> str | None:
        """The rule against a measurement of `kind` at this time; all of it must lie in the hours."""
        hours: HourList = getattr(self, kind).hours
        if contains(hours, begins_at.astimezone(UTC), timedelta(seconds=length_s)):
            return None
        begins = f"{begins_at.astimezone(UTC):%H:%M} UTC"
        return f"{kind}.hours: {begins} for {length_s:g} s is not within {', '.join(hours) or 'any hours'}"

    def forbids_targets(
        self, spec: PingSpec, addresses: list[str], in_flight: Mapping[str, InFlight]
    ) -> list[str | None]:
        """For each target of `spec`, resolved to `addresses`, the rule against it.

        `in_flight` are the cycles that are being sent already. The first targets get what there is; those with the
        same address share its packets.
        """
        there: dict[str, float] = defaultdict(float)
        for cycle in in_flight.values():
            for address in cycle.addresses:
                there[address] += cycle.packets_per_s
        rate, admitted = sum(there.values(), 0.0), set[str]()
        verdicts = []
        for address in addresses:
            more = 0.0 if address in admitted else packets_per_s(spec.spacing_s)
            verdict = (
                self.forbids_address(address)
                or self._forbids_spacing(address, packets_per_s(spec.spacing_s) + there[address])
                or self._forbids_rate(rate + more)
            )
            if verdict is None:
                admitted.add(address)
                rate += more
            verdicts.append(verdict)
        return verdicts

    def _forbids_spacing(self, address: str, rate: float) -> str | None:
        spacing_s = 1 / rate
        if spacing_s >= self.ping.min_spacing_s - FLOAT_SLACK:
            return None
        return f"ping.min_spacing_s: {spacing_s:g} s between packets to {address}, {self.ping.min_spacing_s:g} s asked"

    def _forbids_rate(self, rate: float) -> str | None:
        if rate <= self.ping.max_packets_per_s + FLOAT_SLACK:
            return None
        return f"ping.max_packets_per_s: {rate:g} wanted, {self.ping.max_packets_per_s:g} allowed"

    def forbids_length(self, spec: FillsThePath) -> str | None:
        """The rule against a throughput test for its length."""
        length_s = spec.length_s
        if length_s <= self.throughput.max_duration_s:
            return None
        return f"throughput.max_duration_s: {length_s:g} s wanted, {self.throughput.max_duration_s:g} s allowed"

    def forbids_share(self, length_s: float, used_s: float, expected_bits: float, used_bits: float) -> str | None:
        """The rule against a throughput test for what was used of this day. `expected_bits` is what it may carry."""
        minutes, bits = self.throughput.max_minutes_per_day, self.throughput.max_bits_per_day
        if minutes is not None and used_s + length_s > minutes * 60 + FLOAT_SLACK:
            return (
                f"throughput.max_minutes_per_day: {length_s:g} s after {used_s / 60:.1f} minutes today, "
                f"{minutes:g} minutes allowed"
            )
        if bits is not None and (used_bits >= bits or used_bits + expected_bits > bits):
            return (
                f"throughput.max_bits_per_day: about {expected_bits:.3g} after {used_bits:.3g} today, "
                f"{bits:.3g} allowed"
            )
        return None

    def forbids_file(self, file_bytes: int) -> str | None:
        """The rule against writing a file of a disk-to-disk test, whatever room there is."""
        if not self.disk.folder:
            return "disk.folder: this site names none, so that no file may be written"
        if file_bytes <= self.disk.max_file_bytes:
            return None
        return f"disk.max_file_bytes: {file_bytes:,} wanted, {self.disk.max_file_bytes:,.0f} allowed"

    def forbids_room(self, file_bytes: int, free_bytes: int) -> str | None:
        """The rule against it where the file system has so much left."""
        left_bytes = free_bytes - file_bytes
        if left_bytes >= self.disk.min_free_bytes:
            return None
        return (
            f"disk.min_free_bytes: a file of {file_bytes:,} would leave {max(0, left_bytes):,} of {free_bytes:,} bytes"
            f" in {self.disk.folder}, {self.disk.min_free_bytes:,.0f} asked"
        )

    def forbids_trains(self, address: str, packets: int, sent_within_hour: int) -> str | None:
        """The rule against a capacity measurement of so many packets, after those of the last hour."""
        allowed = self.capacity.max_packets_per_hour
        if sent_within_hour + packets <= allowed:
            return None
        return (
            f"capacity.max_packets_per_hour: {packets} to {address} after {sent_within_hour} within an hour, "
            f"{allowed} allowed"
        )


@dataclass(frozen=True, slots=True)
class InFlight:
    """A ping cycle that is being sent: its distinct addresses, each one request every `spacing_s`."""

    spacing_s: float
    addresses: frozenset[str]

    @property
    def packets_per_s(self) -> float:
        """To each address."""
        return packets_per_s(self.spacing_s)


def packets_per_s(spacing_s: float) -> float:
    """Packets a second to one address while a cycle runs."""
    return 1 / spacing_s if spacing_s > 0 else math.inf
