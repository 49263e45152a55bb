"""The rates of packets that a site permits: the keys that several sections of limits.toml have."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol

import msgspec

from probes.limit_keys import ALL_DAY, FLOAT_SLACK, Hours, Number
from probes.toml.keys import meaning


class Paced(Protocol):
    """A spec of packets to an address that are `spacing_s` apart."""

    @property
    def spacing_s(self) -> float: ...


class PacketLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a section for a kind with cycles that send packets at an even rate."""

    section: ClassVar[str]

    min_spacing_s: Annotated[Number, meaning("minimum interval between packets to the same address")] = 0.1
    max_packets_per_s: Annotated[Number, meaning("total rate of this agent")] = 5000.0
    hours: Hours = ALL_DAY

    def forbids_targets(self, spec: Paced, addresses: list[str], in_flight: Mapping[str, InFlight]) -> list[str | None]:
        """The rule against each address, or None, beside the cycles `in_flight`.

        The first targets get the remaining rate; equal addresses share packets.
        """
        there: dict[str, float] = defaultdict(float)
        for cycle in in_flight.values():
            for address in cycle.addresses:
                there[address] += cycle.packets_per_s
        rate, admitted = sum(there.values(), 0.0), set[str]()
        verdicts = []
        for address in addresses:
            more = 0.0 if address in admitted else packets_per_s(spec.spacing_s)
            verdict = self._forbids_spacing(
                address, packets_per_s(spec.spacing_s) + there[address]
            ) or self._forbids_rate(rate + more)
            if verdict is None:
                admitted.add(address)
                rate += more
            verdicts.append(verdict)
        return verdicts

    def _forbids_spacing(self, address: str, rate: float) -> str | None:
        spacing_s = 1 / rate
        if spacing_s >= self.min_spacing_s - FLOAT_SLACK:
            return None
        rule = f"{self.section}.min_spacing_s"
        return f"{rule}: {spacing_s:g} s between packets to {address}, {self.min_spacing_s:g} s asked"

    def _forbids_rate(self, rate: float) -> str | None:
        if rate <= self.max_packets_per_s + FLOAT_SLACK:
            return None
        return f"{self.section}.max_packets_per_s: {rate:g} wanted, {self.max_packets_per_s:g} allowed"


@dataclass(frozen=True, slots=True)
class InFlight:
    """A running cycle: its addresses, each with a request every `spacing_s`."""

    spacing_s: float
    addresses: frozenset[str]

    @property
    def packets_per_s(self) -> float:
        return packets_per_s(self.spacing_s)


def packets_per_s(spacing_s: float) -> float:
    return 1 / spacing_s if spacing_s > 0 else math.inf
