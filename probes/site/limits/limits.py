"""What this site lets itself be used for: `limits.toml`, which the centre cannot widen.

Here are the rules and the reading of their file; `limits.example.toml` shows every one. What was used of the rules that
count a day or an hour is kept by `probes.site.limits.usage`. `forbids…` functions give what is forbidden, beginning
with the name of the rule, or None.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Protocol, get_type_hints

import msgspec
from msgspec import Meta

from probes import toml_lines
from probes.ping.addresses import is_own
from probes.ping.spec import PingSpec
from probes.toml_lines import Node, suggestion

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NEVER = (
    ("networks.multicast", ("224.0.0.0/4", "ff00::/8")),
    ("networks.broadcast", ("255.255.255.255/32",)),
    ("networks.unspecified", ("0.0.0.0/8", "::/128")),
)
"""One packet there has many answers, or none, and each from another address: none is the answer of who was asked, so
that there would be nothing but loss. No rule opens them."""
WHY_NEVER = "no host's address: whoever answers has another, so nothing could be measured; no rule opens it"
GUARDED = (
    ("loopback", ("127.0.0.0/8", "::1/128")),
    ("private", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")),
    ("link_local", ("169.254.0.0/16", "fe80::/10")),
)
"""RFC 6890: places that mean something else at each site. Only an allowed network that lies inside one opens it."""
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-(?:([01]\d|2[0-3]):([0-5]\d)|24:00)")
DAY_MINUTES = 24 * 60
FLOAT_SLACK = 1e-9


class FillsThePath(Protocol):
    """What is asked of a test that fills its path: for how long at most, and at which rate if at one."""

    @property
    def length_s(self) -> float: ...

    @property
    def rate_bps(self) -> int | None: ...


class LimitsError(Exception):
    """The limits file cannot be used; says where and why. The agent does not start without the limits it was given."""


def _rule(meaning: str, example: object) -> Meta:
    return Meta(description=meaning, examples=[example])


NetworkList = tuple[str, ...]
HourList = tuple[str, ...]
Number = Annotated[float, Meta(ge=0, lt=1e18)]
Hours = Annotated[HourList, _rule("of the day, in UTC; all of a measurement lies within", ["20:00-06:00"])]
ALL_DAY = ("00:00-24:00",)


class Networks(msgspec.Struct, frozen=True, kw_only=True):
    allowed: Annotated[NetworkList, _rule("may be measured", ["0.0.0.0/0", "::/0", "10.1.0.0/16"])] = (
        "0.0.0.0/0",
        "::/0",
    )
    forbidden: Annotated[NetworkList, _rule("are never measured, whatever else is allowed", ["10.1.9.0/24"])] = ()
    own: Annotated[
        NetworkList, _rule("this site's own; measured only where allowed has a part of them", ["198.51.100.0/24"])
    ] = ()
    management: Annotated[NetworkList, _rule("by which machines are managed; measured as own", ["10.1.8.0/24"])] = ()


class PingLimits(msgspec.Struct, frozen=True, kw_only=True):
    min_spacing_s: Annotated[Number, _rule("between two packets to one address", 0.1)] = 0.1
    max_packets_per_s: Annotated[Number, _rule("of this agent in all", 5000)] = 5000.0
    hours: Hours = ALL_DAY


class ThroughputLimits(msgspec.Struct, frozen=True, kw_only=True):
    max_duration_s: Annotated[Number, _rule("of one test, its omitted start included", 60)] = 60.0
    max_minutes_per_day: Annotated[Number | None, _rule("of tests from here and to here, days in UTC", 60)] = None
    max_bits_per_day: Annotated[Number | None, _rule("sent and received by tests, days in UTC", 5e12)] = None
    hours: Hours = ALL_DAY
    peers: Annotated[
        NetworkList | None, _rule("may test to us; without it whoever may be measured", ["192.0.2.0/24"])
    ] = None


class DiskLimits(msgspec.Struct, frozen=True, kw_only=True):
    folder: Annotated[
        str, _rule("in which disk-to-disk tests may write a file; without one none may", "/var/lib/soundings/disk")
    ] = ""
    max_file_bytes: Annotated[Number, _rule("of such a file", 1e9)] = 1e9
    min_free_bytes: Annotated[Number, _rule("which such a file leaves on its file system", 1e9)] = 1e9


class CapacityLimits(msgspec.Struct, frozen=True, kw_only=True):
    max_packets_per_hour: Annotated[int, Meta(ge=0), _rule("to one address; a measurement is 184", 1500)] = 1500
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
        parsed = ipaddress.ip_address(address.partition("%")[0])
        return next((rule for one in (parsed, *_carried(parsed)) if (rule := self._forbids(one))), None)

    def _forbids(self, address: Address) -> str | None:
        rule = _forbidden(self.networks, address)
        # Loopback addresses are all ours, and have their own guard. Which others are may change at any time.
        if rule is None and not address.is_loopback and is_own((str(address), 0), address.version):
            alone = f"{address}/{address.max_prefixlen}"
            return (
                None
                if _opens(self.networks, alone, address)
                else _guard("management", address, "this agent's own", alone)
            )
        return rule

    def forbids_peer(self, address: str | None) -> str | None:
        """The rule against serving a test of a peer; None for `address` where the plan does not say who comes."""
        peers = self.throughput.peers
        if peers is None:
            return None if address is None else self.forbids_address(address)
        if address is None:
            return "throughput.peers: the plan does not say who comes"
        for network in (one for one in self.networks.forbidden if _within(ipaddress.ip_address(address), (one,))):
            return f"networks.forbidden: {address} is in {network}"
        if not _within(ipaddress.ip_address(address), peers):
            return f"throughput.peers: {address} is in none of them"
        return None

    def forbids_time(self, kind: str, begins_at: datetime, length_s: float) -> str | None:
        """The rule against a measurement of `kind` at this time; all of it must lie in the hours."""
        hours: HourList = getattr(self, kind).hours
        if _open(hours, begins_at.astimezone(UTC), timedelta(seconds=length_s)):
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


@dataclass(frozen=True, slots=True)
class Rule:
    """One key of the file: what it means, and what holds."""

    name: str
    meaning: str
    value: object
    is_default: bool


def rules(limits: Limits) -> list[Rule]:
    """All rules as they hold."""
    found = []
    for section in Limits.__struct_fields__:
        for key, hint in _hints(section).items():
            value = getattr(getattr(limits, section), key)
            default = getattr(getattr(Limits(), section), key)
            meta = hint.__metadata__[-1]
            found.append(Rule(f"{section}.{key}", meta.description, value, value == default))
    return found


def packets_per_s(spacing_s: float) -> float:
    """Packets a second to one address while a cycle runs."""
    return 1 / spacing_s if spacing_s > 0 else math.inf


def read_limits(path: Path | None) -> Limits:
    """The limits in a file; the defaults where there is none. Raises `LimitsError` with every mistake and its line."""
    if path is None:
        return Limits()
    try:
        root = toml_lines.parse(path.read_text())
    except toml_lines.TomlSyntaxError as error:
        raise LimitsError(f"{path}:{error.line}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise LimitsError(f"{path}: {error}") from error
    sections: dict[str, dict[str, Any]] = {}
    wrong: list[tuple[int, str]] = []
    for section, table in root.value.items():
        if section not in Limits.__struct_fields__ or not isinstance(table.value, dict):
            known = ", ".join(f"[{name}]" for name in Limits.__struct_fields__)
            likely = suggestion(section, Limits.__struct_fields__)
            wrong.append((table.line, f'unknown table "{section}"{likely}; there are {known}'))
            continue
        sections[section] = {key: _value(section, key, node, wrong) for key, node in table.value.items()}
    if wrong:
        raise LimitsError("\n".join(f"{path}:{line}: {message}" for line, message in sorted(wrong)))
    return msgspec.convert(sections, type=Limits)


def _value(section: str, key: str, node: Node, wrong: list[tuple[int, str]]) -> object:
    """The value of one key as it stands in the file; what is wrong with it is noted."""
    hints = _hints(section)
    if key not in hints:
        likely = suggestion(key, hints)
        wrong.append((node.line, f'unknown key "{key}" in [{section}]{likely}; it takes {", ".join(hints)}'))
        return None
    plain = _plain(node)
    try:
        checked = msgspec.convert(plain, type=hints[key])
        if isinstance(checked, tuple):
            for one in checked:
                _check_hours(one) if key == "hours" else _check_network(one, is_allowed=key == "allowed")
        if key == "folder" and checked and not Path(checked).is_absolute():
            raise ValueError(f"{checked!r} is not an absolute path")
    except ValueError as error:  # msgspec's is one
        example = hints[key].__metadata__[-1].examples[0]
        wrong.append((node.line, f"{section}.{key}: {error}; write for example {key} = {toml(example)}"))
    return plain


def _plain(node: Node) -> object:
    if isinstance(node.value, list):
        return [_plain(one) for one in node.value]
    return node.value


def _check_network(text: str, *, is_allowed: bool) -> None:
    network = ipaddress.ip_network(text)
    for rule, never in NEVER if is_allowed else ():
        if any(network.version == _network(one).version and network.subnet_of(_network(one)) for one in never):  # type: ignore[arg-type]
            raise ValueError(f"{text} ({rule}) is {WHY_NEVER}")


def _check_hours(text: str) -> None:
    if HOURS.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not HH:MM-HH:MM")


def toml(value: object) -> str:
    """A value as it is written in the file."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(toml(one) for one in value)}]"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"


@lru_cache
def _hints(section: str) -> dict[str, Any]:
    """The keys of a section with their types."""
    return get_type_hints(type(getattr(Limits(), section)), include_extras=True)


@lru_cache(maxsize=16_384)
def _forbidden(networks: Networks, address: Address) -> str | None:
    """The rule of the site's networks against an address, its own addresses left out. An agent asks for the same ones
    in each cycle."""
    for rule, never in NEVER:
        if _within(address, never):
            return f"{rule}: {address} is {WHY_NEVER}"
    for network in (network for network in networks.forbidden if _within(address, (network,))):
        return f"networks.forbidden: {address} is in {network}"
    for rule, guarded, what in _guards(networks, address):
        if not _opens(networks, guarded, address):
            return _guard(rule, address, what, guarded)
    if not _within(address, networks.allowed):
        return f"networks.allowed: {address} is in none of them"
    return None


def _guard(rule: str, address: Address, what: str, guarded: str) -> str:
    return f"networks.{rule}: {address} is {what}; a network inside {guarded} in networks.allowed would open it"


def _guards(networks: Networks, address: Address) -> Iterator[tuple[str, str, str]]:
    """The rules by which this address is measured only if it is allowed by more than a network around it: name of the
    rule, its network, and what the address is. Links of two (RFC 3021) have no broadcast address."""
    ours = (("management", networks.management), ("own", networks.own))
    for rule, guarded in (*ours, *GUARDED):
        for network in (network for network in guarded if _within(address, (network,))):
            yield rule, network, f"in {network}"
    for _, guarded in ours:
        for around in map(_network, guarded):
            if around.version == 4 and around.prefixlen < 31 and address == around.broadcast_address:
                yield "broadcast", f"{address}/32", f"the broadcast address of {around}"


def _opens(networks: Networks, guarded: str, address: Address) -> bool:
    """Whether an allowed network with this address lies inside the guarded one."""
    outer = _network(guarded)
    return any(
        _network(one).version == outer.version and _network(one).subnet_of(outer)  # type: ignore[arg-type]
        for one in networks.allowed
        if address in _network(one)
    )


@lru_cache(maxsize=4096)
def _network(text: str) -> Network:
    return ipaddress.ip_network(text)


def _within(address: Address, networks: tuple[str, ...]) -> bool:
    return any(address in _network(one) for one in networks)


def _carried(address: Address) -> list[ipaddress.IPv4Address]:
    """IPv4 addresses that packets to an IPv6 one may end at: mapped, NAT64 (RFC 6052), 6to4 (RFC 3056), Teredo."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    carried = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in NAT64:
        carried.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in carried if one is not None]


def _open(hours: HourList, begins_at: datetime, length: timedelta) -> bool:
    """Whether all of a period lies in the hours of the days that it touches."""
    midnight = begins_at.replace(hour=0, minute=0, second=0, microsecond=0)
    begins_min = (begins_at - midnight) / timedelta(minutes=1)
    ends_min = begins_min + length / timedelta(minutes=1)
    days = range(-1, math.ceil(ends_min / DAY_MINUTES))
    reached = begins_min
    for start, end in sorted(
        (day * DAY_MINUTES + start, day * DAY_MINUTES + end) for day in days for start, end in map(_minutes, hours)
    ):
        if start <= reached < end:
            reached = end
    return reached > begins_min and reached >= ends_min


def _minutes(text: str) -> tuple[int, int]:
    """Minutes of the day; an end that is not after the start is on the next day."""
    start, end = (int(part[:2]) * 60 + int(part[3:]) for part in text.split("-"))
    return start, end if end > start else end + DAY_MINUTES
