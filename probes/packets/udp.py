"""UDP sockets of the packet engine: unprivileged, with kernel timestamps and ICMP errors as for echo requests."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from probes.packets.icmp.channel import Channel


class UdpChannel(Channel):
    """A UDP socket; its `identifier` is the source port."""

    NAME = "UDP"
    KINDS: Sequence[socket.SocketKind] = (socket.SOCK_DGRAM,)
    PROTOCOLS = {4: socket.IPPROTO_UDP, 6: socket.IPPROTO_UDP}

    def _bind(self, source: str | None) -> int:
        for address in [source, None] if source is not None else [None]:
            try:
                self.socket.bind((address or "", 0))
            except OSError:
                if address is None:
                    raise
                continue
            break
        port: int = self.socket.getsockname()[1]
        return port
