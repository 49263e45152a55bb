"""Parses the text that names a host, without resolving.

Stricter than the C library, which reads `192.0.2.010` as 192.0.2.8.
"""

from __future__ import annotations

import argparse
import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

LONGEST_NAME = 253
_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
# A label that ends a name and is a number makes the whole an IPv4 address for inet_aton(3).
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_ZONE = re.compile(r"[!-$&-.0-~]+")
_BRACKETED = re.compile(r"\[([^\[\]]*)\](:[0-9]*)?")


@lru_cache(maxsize=16_384)
def literal(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an IP address in its usual form, with any zone; else None."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    zone = address.scope_id if isinstance(address, IPv6Address) else None
    if zone is not None and not (address.is_link_local and _ZONE.fullmatch(zone)):
        return None
    return address


@lru_cache(maxsize=16_384)
def fault(text: str) -> str | None:
    """Why `text` names no host, and the fix, or None."""
    if _names_host(text):
        return None
    host = _host_within(text)
    if _names_host(host):
        return f'is no address or name alone; write "{host}"'
    base, has_zone, _ = host.partition("%")
    if has_zone and literal(base) is not None:
        return f'has a zone, which only link-local IPv6 addresses have; write "{base}"'
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return "is no IPv4 address; write four decimal numbers without leading zeros, as in 192.0.2.10"
    if not host.isascii():
        return "has characters that no DNS name has; write the name in its ASCII form, as in xn--bcher-kva.example"
    return "is neither an IP address nor a DNS name; write it alone, without port, prefix length or scheme"


def host_argument(text: str) -> str:
    reason = fault(text)
    if reason is not None:
        raise argparse.ArgumentTypeError(f"{text!r} {reason}")
    return text


def _names_host(text: str) -> bool:
    return literal(text) is not None or _is_name(text)


def _is_name(text: str) -> bool:
    labels = text.removesuffix(".").split(".")
    is_name = len(text) <= LONGEST_NAME and all(_LABEL.fullmatch(label) for label in labels)
    return is_name and not _NUMBER.fullmatch(labels[-1])


def _host_within(text: str) -> str:
    """Extract the host from a URL-like text."""
    stripped = text.strip()
    authority = re.split(r"[/?#\\]", stripped.partition("://")[2] or stripped, maxsplit=1)[0].rpartition("@")[2]
    bracketed = _BRACKETED.fullmatch(authority)
    if bracketed is not None:
        return bracketed[1]
    host = authority.partition(":")[0] if authority.count(":") == 1 else authority
    return host.rstrip(".")
