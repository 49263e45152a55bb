"""Special-purpose address ranges of the IANA registries: they belong to no AS."""

from __future__ import annotations

from functools import cache
from ipaddress import ip_network

from monitor.routes.tables.address_table import AddressTable, Entry
from monitor.routes.tables.building import RangeList

PRIVATE = "private"
SHARED = "shared, carrier-grade NAT"
# Purpose of each range, with the RFC that reserves it.
RANGES = {
    "0.0.0.0/8": "this network (RFC 791)",
    "10.0.0.0/8": f"{PRIVATE} (RFC 1918)",
    "100.64.0.0/10": f"{SHARED} (RFC 6598)",
    "127.0.0.0/8": "loopback (RFC 1122)",
    "169.254.0.0/16": "link-local (RFC 3927)",
    "172.16.0.0/12": f"{PRIVATE} (RFC 1918)",
    "192.0.0.0/24": "protocol assignments (RFC 6890)",
    "192.0.2.0/24": "documentation (RFC 5737)",
    "192.168.0.0/16": f"{PRIVATE} (RFC 1918)",
    "198.18.0.0/15": "benchmarking (RFC 2544)",
    "198.51.100.0/24": "documentation (RFC 5737)",
    "203.0.113.0/24": "documentation (RFC 5737)",
    "224.0.0.0/4": "multicast (RFC 5771)",
    "240.0.0.0/4": "reserved (RFC 1112)",
    "255.255.255.255/32": "broadcast (RFC 919)",
    "::/128": "unspecified (RFC 4291)",
    "::1/128": "loopback (RFC 4291)",
    "64:ff9b:1::/48": "local translation (RFC 8215)",
    "100::/64": "discarded (RFC 6666)",
    "2001:2::/48": "benchmarking (RFC 5180)",
    "2001:db8::/32": "documentation (RFC 3849)",
    "3fff::/20": "documentation (RFC 9637)",
    "fc00::/7": f"{PRIVATE} (RFC 4193)",
    "fe80::/10": "link-local (RFC 4291)",
    "ff00::/8": "multicast (RFC 4291)",
}


@cache
def special_ranges() -> AddressTable:
    ranges = RangeList()
    for prefix, purpose in RANGES.items():
        network = ip_network(prefix)
        ranges.add(network.version, int(network[0]), int(network[-1]), Entry(label=purpose))
    return ranges.table()
