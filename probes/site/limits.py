"""What this site lets itself be used for: `limits.toml`, which the centre cannot widen.

    [networks]
    allowed = ["0.0.0.0/0", "::/0"]     # addresses that may be measured
    forbidden = ["192.168.0.0/16"]      # taken from those
    [ping]
    min_spacing_s = 0.1                 # between two echo requests to one address
    max_packets_per_s = 5000            # of this agent in all
    [throughput]
    max_duration_s = 60                 # of one test, its omitted start included
    [capacity]
    max_packets_per_hour = 1500         # to one address, by capacity tests; a measurement is 184

Every key may be left out; the values above are the defaults, but for `forbidden`, which is empty. Multicast, broadcast
and unspecified addresses are never measured. `forbids…` functions give the name of the rule, or None.
"""

from __future__ import annotations

import ipaddress
import math
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from probes.ping.spec import PingSpec
from probes.throughput.spec import ThroughputSpec

BROADCAST = ipaddress.ip_address("255.255.255.255")
FLOAT_SLACK = 1e-9


class LimitsError(Exception):
    """The limits file cannot be used; says where and why. The agent does not start without the limits it was given."""


class Networks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    allowed: tuple[str, ...] = ("0.0.0.0/0", "::/0")
    forbidden: tuple[str, ...] = ()


class PingLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    min_spacing_s: float = 0.1
    max_packets_per_s: float = 5000.0


class ThroughputLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_duration_s: float = 60.0


class CapacityLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_packets_per_hour: int = 1500


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules of one site. Methods name the rule that forbids something, or give None."""

    networks: Networks = Networks()
    ping: PingLimits = PingLimits()
    throughput: ThroughputLimits = ThroughputLimits()
    capacity: CapacityLimits = CapacityLimits()

    def forbids_address(self, address: str) -> str | None:
        """The rule against measuring a literal address."""
        parsed = ipaddress.ip_address(address)
        mapped = getattr(parsed, "ipv4_mapped", None)
        parsed = parsed if mapped is None else mapped
        if parsed.is_multicast or parsed.is_unspecified or parsed == BROADCAST:
            return f"multicast, broadcast and unspecified addresses are never measured: {address}"
        for network in self.networks.forbidden:
            if parsed in ipaddress.ip_network(network):
                return f"networks.forbidden: {address} is in {network}"
        if not any(parsed in ipaddress.ip_network(network) for network in self.networks.allowed):
            return f"networks.allowed: {address} is in none of them"
        return None

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

    def forbids_length(self, spec: ThroughputSpec) -> str | None:
        """The rule against a throughput test for its length."""
        length_s = spec.duration_s + spec.omit_s
        if length_s <= self.throughput.max_duration_s:
            return None
        return f"throughput.max_duration_s: {length_s} s wanted, {self.throughput.max_duration_s:g} s allowed"

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


def read_limits(path: Path | None) -> Limits:
    """The limits in a file; the defaults where there is none. Raises `LimitsError`."""
    if path is None:
        return Limits()
    try:
        limits = msgspec.convert(tomllib.loads(path.read_text()), type=Limits)
        _check(limits)
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise LimitsError(f"{path}: {error}") from error
    return limits


def _check(limits: Limits) -> None:
    """Raises ValueError for what the types do not exclude."""
    for rule in ("allowed", "forbidden"):
        for network in getattr(limits.networks, rule):
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise ValueError(f"networks.{rule}: {error}; write a network such as 192.0.2.0/24") from error
    for name, value in (
        ("ping.min_spacing_s", limits.ping.min_spacing_s),
        ("ping.max_packets_per_s", limits.ping.max_packets_per_s),
        ("throughput.max_duration_s", limits.throughput.max_duration_s),
        ("capacity.max_packets_per_hour", limits.capacity.max_packets_per_hour),
    ):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name}: {value:g} is not a number from 0 up")
