"""Reads counters of this host's interfaces over rtnetlink, in the current network namespace.

Counters are the 64-bit `struct rtnl_link_stats64`.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
import time
from collections.abc import Iterator

from probes.contract import NoRoute, ProbeError
from probes.interface.counters import Reading
from probes.packets.addresses import FAMILY
from probes.packets.egress import Egress, open_within
from probes.transfers.hosts.interface import read_settings

RTM_GETLINK, RTM_GETROUTE = 18, 26
NLM_F_REQUEST = 1
NLMSG_ERROR = 2
RTA_DST, RTA_OIF = 1, 4
# Numbers of <linux/rtnetlink.h> and <linux/if_link.h>.
IFLA_IFNAME, IFLA_IFALIAS, IFLA_STATS64 = 3, 20, 23
HEADER, ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
LINK, ROUTE = struct.Struct("=BxHiII"), struct.Struct("=BBBBBBBBI")
# The first eight: packets, bytes, errors and drops, received before sent.
STATS = struct.Struct("=8Q")
ANSWER_BYTES = 65_536
TIMEOUT_S = 5.0


def read(address: str, family: int, egress: Egress) -> Reading:
    """Read the interface of the route to `address`. Raises `ProbeError`."""
    return open_within(egress, lambda: _read(address, family, egress))


def _read(address: str, family: int, egress: Egress) -> Reading:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(TIMEOUT_S)
        try:
            index = socket.if_nametoindex(egress.interface) if egress.interface else _route(kernel, address, family)
            at_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            link = _link(kernel, index)
        except OSError as error:
            problem = f"interface {egress.interface}" if egress.interface else f"route to {address}"
            raise NoRoute(f"{problem}: {error.strerror or error}") from error
    name = link[IFLA_IFNAME].rstrip(b"\0").decode(errors="replace")
    if IFLA_STATS64 not in link:
        raise ProbeError(f"the kernel gives no counters of {name}")
    _, _, in_octets, out_octets, in_errors, out_errors, in_drops, out_drops = STATS.unpack_from(link[IFLA_STATS64])
    alias = link.get(IFLA_IFALIAS, b"").rstrip(b"\0").decode(errors="replace")
    return Reading(
        at_s=at_s,
        epoch=index,
        name=name,
        alias=alias or None,
        speed_bps=read_settings(name).speed_bps,
        in_octets=in_octets,
        out_octets=out_octets,
        in_errors=in_errors,
        out_errors=out_errors,
        in_drops=in_drops,
        out_drops=out_drops,
    )


def _route(kernel: socket.socket, address: str, family: int) -> int:
    """Index of the interface of the route to an address."""
    packed = ipaddress.ip_address(address).packed
    body = ROUTE.pack(FAMILY[family], 8 * len(packed), 0, 0, 0, 0, 0, 0, 0)
    answer = _ask(kernel, RTM_GETROUTE, body + _attribute(RTA_DST, packed), ROUTE.size)
    if RTA_OIF not in answer:
        raise NoRoute(f"the route to {address} has no interface")
    return int(struct.unpack_from("=I", answer[RTA_OIF])[0])


def _link(kernel: socket.socket, index: int) -> dict[int, bytes]:
    return _ask(kernel, RTM_GETLINK, LINK.pack(socket.AF_UNSPEC, 0, index, 0, 0), LINK.size)


def _ask(kernel: socket.socket, message: int, body: bytes, fixed_bytes: int) -> dict[int, bytes]:
    """Attributes of the kernel's answer to a request. Raises `OSError`."""
    kernel.sendto(HEADER.pack(HEADER.size + len(body), message, NLM_F_REQUEST, 1, 0) + body, (0, 0))
    answer = kernel.recv(ANSWER_BYTES)
    length, answered, _, _, _ = HEADER.unpack_from(answer)
    if answered == NLMSG_ERROR:
        code = -struct.unpack_from("=i", answer, HEADER.size)[0]
        raise OSError(code, os.strerror(code))
    return dict(_attributes(answer[HEADER.size + fixed_bytes : length]))


def _attribute(kind: int, value: bytes) -> bytes:
    return ATTRIBUTE.pack(ATTRIBUTE.size + len(value), kind) + value + b"\0" * (-len(value) % 4)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(data)
        yield kind, data[ATTRIBUTE.size : length]
        data = data[max(length + 3 & ~3, ATTRIBUTE.size) :]
