"""What this site lets itself be used for: `limits.toml`, which the centre cannot widen.

    [networks]
    allowed = ["0.0.0.0/0", "::/0"]     # addresses that may be measured
    forbidden = ["192.168.0.0/16"]      # taken from those
    [ping]
    min_spacing_s = 0.1                 # between two echo requests to one address
    max_packets_per_s = 5000            # of this agent in all
    [throughput]
    max_duration_s = 60                 # of one test, its omitted start included

Every key may be left out; the values above are the defaults, but for `forbidden`, which is empty. Multicast, broadcast
and unspecified addresses are never measured. `forbids…` functions give the name of the rule, or None.
"""

from __future__ import annotations

import ipaddress
import math
import tomllib
from collections import Counter
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


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules of one site. Methods name the rule that forbids something, or give None."""

    networks: Networks = Networks()
    ping: PingLimits = PingLimits()
    throughput: ThroughputLimits = ThroughputLimits()

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

    def forbids_targets(self, spec: PingSpec, addresses: list[str], packets_per_s: float) -> list[str | None]:
        """For each target of `spec`, resolved to `addresses`, the rule against it.

        `packets_per_s` is what other cycles are sending already. The first targets get what there is.
        """
        per_address: Counter[str] = Counter()
        rate = packets_per_s
        verdicts = []
        for address in addresses:
            verdict = (
                self.forbids_address(address)
                or self._forbids_spacing(spec, address, per_address[address] + 1)
                or self._forbids_rate(rate + packets_per_target(spec))
            )
            if verdict is None:
                per_address[address] += 1
                rate += packets_per_target(spec)
            verdicts.append(verdict)
        return verdicts

    def _forbids_spacing(self, spec: PingSpec, address: str, targets_there: int) -> str | None:
        spacing_s = spec.spacing_s / targets_there
        if spacing_s >= self.ping.min_spacing_s - FLOAT_SLACK:
            return None
        return f"ping.min_spacing_s: {spacing_s:g} s between packets to {address}, {self.ping.min_spacing_s:g} s asked"

    def _forbids_rate(self, packets_per_s: float) -> str | None:
        if packets_per_s <= self.ping.max_packets_per_s + FLOAT_SLACK:
            return None
        return f"ping.max_packets_per_s: {packets_per_s:g} wanted, {self.ping.max_packets_per_s:g} allowed"

    def forbids_length(self, spec: ThroughputSpec) -> str | None:
        """The rule against a throughput test for its length."""
        length_s = spec.duration_s + spec.omit_s
        if length_s <= self.throughput.max_duration_s:
            return None
        return f"throughput.max_duration_s: {length_s} s wanted, {self.throughput.max_duration_s:g} s allowed"


def packets_per_target(spec: PingSpec) -> float:
    """Packets a second that one target of a cycle costs, while the cycle runs."""
    return 1 / spec.spacing_s if spec.spacing_s > 0 else math.inf


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
    ):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name}: {value:g} is not a number from 0 up")
