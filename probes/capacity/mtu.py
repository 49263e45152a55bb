"""The largest IP packet this host believes a path takes whole. No packet is sent to learn it."""

from __future__ import annotations

import socket

from probes.ping.addresses import SocketAddress
from probes.ping.channel import FAMILY

IP_MTU = 14
IPV6_MTU = 24
DISCARD_PORT = 9


def path_mtu_bytes(family: int, address: SocketAddress) -> int:
    """The route's MTU, or what routers on the path have reported since. Raises OSError where there is no route."""
    level, option = (socket.IPPROTO_IP, IP_MTU) if family == 4 else (socket.IPPROTO_IPV6, IPV6_MTU)
    with socket.socket(FAMILY[family], socket.SOCK_DGRAM) as asking:
        asking.connect((address[0], DISCARD_PORT, *address[2:]))
        return asking.getsockopt(level, option)
