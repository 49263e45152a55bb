"""Validate addresses of hosts that other sites reach. Nothing is resolved here."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Literal

from probes import hosts
from probes.hosts import literal
from probes.site.limits import networks
from probes.site.limits.networks import GUARDED

Family = Literal[4, 6]

_PRIVATE = [ip_network(network) for network in dict(GUARDED)["private"]]
_BROADCAST = IPv4Address("255.255.255.255")


def family_of(address: str) -> Family | None:
    """4 or 6 for a literal, None for a name."""
    ip = literal(address)
    if ip is None:
        return None
    return 4 if ip.version == 4 else 6


def is_private(address: str) -> bool:
    """Whether it is private or a provider's behind NAT; False for a name."""
    ip = literal(address)
    return ip is not None and any(ip in network for network in _PRIVATE)


def guarded_network(address: str) -> str | None:
    """Network that agents measure only if limits.toml allows, else None."""
    return None if literal(address) is None else networks.guarded_network(address)


def canonical(address: str) -> str:
    """Normal form, also of names: `2001:DB8:0::1` gives `2001:db8::1`."""
    ip = literal(address)
    return address.lower().rstrip(".") if ip is None else str(ip)


def fault(address: str) -> str | None:
    """Reason why `address` cannot be measured, and the fix, or None."""
    ip = literal(address)
    if ip is None:
        return hosts.fault(address)
    kind = _unusable(ip)
    if kind is not None:
        return f"is {kind}; write the address of one host, as other sites reach it"
    return None


def _unusable(ip: IPv4Address | IPv6Address) -> str | None:
    kinds = {
        "a multicast address": ip.is_multicast,
        "the unspecified address": ip.is_unspecified,
        "the broadcast address": ip == _BROADCAST,
        "link-local": ip.is_link_local,
        "an IPv4 address in IPv6 form": isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None,
        "of a reserved range": isinstance(ip, IPv4Address) and ip.is_reserved,
    }
    return next((kind for kind, is_so in kinds.items() if is_so), None)
