"""The rules of `[networks]`: addresses that may not be measured."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Annotated

import msgspec

from probes.limit_keys import NetworkList, network_fault
from probes.packets.addresses import is_own
from probes.toml.keys import check, meaning

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Not host addresses: replies come from others and cannot match, so loss would be 100%. No rule opens them.
NEVER = (
    ("networks.multicast", ("224.0.0.0/4", "ff00::/8")),
    ("networks.broadcast", ("255.255.255.255/32",)),
    ("networks.unspecified", ("0.0.0.0/8", "::/128")),
)
WHY_NEVER = "no host's address: whoever answers has another, so nothing could be measured; no rule opens it"
# RFC 6890: addresses with a meaning of their own at each site. Only an allowed network inside opens them.
GUARDED = (
    ("loopback", ("127.0.0.0/8", "::1/128")),
    ("private", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")),
    ("link_local", ("169.254.0.0/16", "fe80::/10")),
)
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def _allowed_fault(text: str) -> str | None:
    fault = network_fault(text)
    if fault is not None:
        return fault
    network = _network(text)
    for rule, never in NEVER:
        if any(network.version == _network(other).version and network.subnet_of(_network(other)) for other in never):  # type: ignore[arg-type]
            return f"({rule}) is {WHY_NEVER}; remove it"
    return None


class Networks(msgspec.Struct, frozen=True, kw_only=True):
    allowed: Annotated[tuple[Annotated[str, check(_allowed_fault)], ...], meaning("networks that may be measured")] = (
        "0.0.0.0/0",
        "::/0",
    )
    forbidden: Annotated[NetworkList, meaning("networks that are never measured; overrides allowed")] = ()
    own: Annotated[
        NetworkList,
        meaning("the site's own networks; measured only if allowed has a network inside them"),
    ] = ()
    management: Annotated[
        NetworkList,
        meaning("management networks; measured only if allowed has a network inside them"),
    ] = ()


DEFAULT_ALLOWED = Networks().allowed


def guarded_network(address: str) -> str | None:
    """The network of `GUARDED` that a literal address is in."""
    parsed = _parse(address.partition("%")[0])
    return next((network for _, networks in GUARDED for network in networks if is_within(parsed, (network,))), None)


def networks_around(addresses: Iterable[str]) -> list[str]:
    """The smallest networks around these literal addresses, by guarded network."""
    of_guard: dict[object, list[Address]] = {}
    for address in addresses:
        parsed = _parse(address.partition("%")[0])
        of_guard.setdefault(guarded_network(address) or parsed, []).append(parsed)
    return [str(_around(alike)) for alike in of_guard.values()]


def _around(addresses: list[Address]) -> Network:
    differing = max(int(address) ^ int(addresses[0]) for address in addresses).bit_length()
    return ipaddress.ip_network((addresses[0], addresses[0].max_prefixlen - differing), strict=False)


def forbids_address(networks: Networks, address: str) -> str | None:
    """The rule against a literal address, or None; embedded IPv4 addresses count too."""
    parsed = _parse(address.partition("%")[0])
    return next((rule for each in (parsed, *_carried(parsed)) if (rule := _forbids(networks, each))), None)


def _forbids(networks: Networks, address: Address) -> str | None:
    rule = _forbidden(networks, address)
    # Loopback addresses are all ours, and have their own guard. Which others are may change at any time.
    if rule is None and not address.is_loopback and is_own((str(address), 0), address.version):
        alone = f"{address}/{address.max_prefixlen}"
        return None if _opens(networks, alone, address) else _guard("management", address, "this agent's own", alone)
    return rule


@lru_cache(maxsize=16_384)
def _forbidden(networks: Networks, address: Address) -> str | None:
    # Cached rule by the networks, since each cycle repeats the addresses.
    for rule, never in NEVER:
        if is_within(address, never):
            return f"{rule}: {address} is {WHY_NEVER}"
    for network in (network for network in networks.forbidden if is_within(address, (network,))):
        return f"networks.forbidden: {address} is in {network}"
    for rule, guarded, description in _guards(networks, address):
        if not _opens(networks, guarded, address):
            return _guard(rule, address, description, guarded)
    if not is_within(address, networks.allowed):
        return f"networks.allowed: {address} is in none of them"
    return None


def _guard(rule: str, address: Address, description: str, guarded: str) -> str:
    return f"networks.{rule}: {address} is {description}; a network inside {guarded} in networks.allowed would open it"


def _guards(networks: Networks, address: Address) -> Iterator[tuple[str, str, str]]:
    """Rule, network and reason that bar an address; a narrower allowed network lifts them. A link of two has no
    broadcast (RFC 3021)."""
    ours = (("management", networks.management), ("own", networks.own))
    for rule, guarded in (*ours, *GUARDED):
        for network in (network for network in guarded if is_within(address, (network,))):
            yield rule, network, f"in {network}"
    for _, guarded in ours:
        for around in map(_network, guarded):
            if around.version == 4 and around.prefixlen < 31 and address == around.broadcast_address:
                yield "broadcast", f"{address}/32", f"the broadcast address of {around}"


def _opens(networks: Networks, guarded: str, address: Address) -> bool:
    outer = _network(guarded)
    return any(
        _network(allowed).version == outer.version and _network(allowed).subnet_of(outer)  # type: ignore[arg-type]
        for allowed in networks.allowed
        if address in _network(allowed)
    )


@lru_cache(maxsize=16_384)
def _parse(text: str) -> Address:
    return ipaddress.ip_address(text)


@lru_cache(maxsize=4096)
def _network(text: str) -> Network:
    return ipaddress.ip_network(text)


def is_within(address: Address, networks: tuple[str, ...]) -> bool:
    return any(address in _network(network) for network in networks)


def _carried(address: Address) -> list[ipaddress.IPv4Address]:
    """IPv4 addresses carried: mapped, NAT64 (RFC 6052), 6to4 (RFC 3056), Teredo."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    carried = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in NAT64:
        carried.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [address for address in carried if address is not None]
