"""[[network]] tables of mesh.toml: prefixes of own networks with names, for route hops."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any

from msgspec import Meta, Struct

from probes.toml.keys import Text, check, meaning
from probes.toml.tables import Table

# The last AS number, 2^32 - 1, is reserved (RFC 7300).
LARGEST_ASN = 2**32 - 2


def parse_prefix(text: str) -> IPv4Network | IPv6Network:
    """Parse a prefix or single address. Raises `ValueError` with a fix."""
    try:
        return ip_network(text)
    except ValueError:
        try:
            network = ip_network(text, strict=False)
        except ValueError:
            raise ValueError('is not a prefix; write it as in "192.0.2.0/24" or "2001:db8::/32"') from None
        raise ValueError(f'has host bits set; write "{network}"') from None


def fault(text: str) -> str | None:
    """Reason why `text` is not a prefix, and the fix, or None."""
    try:
        parse_prefix(text)
    except ValueError as error:
        return str(error)
    return None


class NetworkEntry(Struct, frozen=True, kw_only=True):
    """A [[network]] table."""

    prefix: Annotated[
        Text,
        check(fault),
        meaning(
            "Prefix of the network, IPv4 or IPv6. The longest prefix with an address names it.",
            '"…" (such as "192.0.2.0/24")',
        ),
    ]
    name: Annotated[Text, meaning("Name of the network, shown at the hops of routes.", '"…"')]
    asn: (
        Annotated[
            int,
            Meta(ge=1, le=LARGEST_ASN),
            meaning("AS number of the network. Default: that of the loaded table."),
        ]
        | None
    ) = None


def read_networks(top: Table) -> dict[str, dict[str, Any]]:
    """Name and AS number by prefix; a repeated prefix is a problem."""
    networks: dict[str, dict[str, Any]] = {}
    first: dict[str, Table] = {}
    for table in top.tables("network"):
        entry: NetworkEntry | None = table.entry()
        if entry is None:
            continue
        prefix = str(parse_prefix(entry.prefix))
        if first.setdefault(prefix, table) is not table:
            line = first[prefix].line_of("prefix")
            table.problem(
                f'prefix = "{prefix}" is already that of network "{first[prefix].name}" (line {line}); remove one',
                "prefix",
            )
        networks[prefix] = {"name": entry.name, "asn": entry.asn}
    return networks
