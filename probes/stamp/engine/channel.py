"""UDP sockets of STAMP senders and reflectors, with kernel timestamps, TTL and DSCP."""

from __future__ import annotations

import errno
import socket

import numpy as np

from probes.contract import NotPermitted, ProbeError
from probes.packets.arrays import Bytes, Int64s
from probes.packets.egress import ANY, Egress
from probes.packets.icmp import kernel
from probes.packets.udp import UdpChannel

IP_RECVTOS = 13
IPV6_RECVTCLASS = 66
IPV6_RECVPKTINFO = 49
TRAFFIC_CLASS = {4: (socket.IPPROTO_IP, socket.IP_TOS), 6: (socket.IPPROTO_IPV6, 67)}
RECEIVE_TRAFFIC_CLASS = {4: (socket.IPPROTO_IP, IP_RECVTOS), 6: (socket.IPPROTO_IPV6, IPV6_RECVTCLASS)}
RECEIVE_LOCAL_ADDRESS = {4: (socket.IPPROTO_IP, 8), 6: (socket.IPPROTO_IPV6, IPV6_RECVPKTINFO)}

# Length of a control message's header in words of 4 bytes.
CONTROL_HEADER_WORDS = 4
LOCAL_WORDS = {4: 3, 6: 5}


class StampChannel(UdpChannel):
    """A sender's socket; received packets come with their DSCP."""

    def _set_up(self) -> int:
        stamps = super()._set_up()
        self.socket.setsockopt(*RECEIVE_TRAFFIC_CLASS[self.family], 1)
        return stamps

    def set_dscp(self, dscp: int) -> None:
        self.socket.setsockopt(*TRAFFIC_CLASS[self.family], dscp << 2)


class ReflectorChannel(StampChannel):
    """A reflector's socket, on `port` of all local addresses or of `source`.

    A reply has its request's DSCP.
    """

    def __init__(
        self, family: int, port: int, source: str | None = None, *, egress: Egress = ANY, shares_port: bool = False
    ) -> None:
        """`shares_port`: another of our sockets has the port; the kernel prefers the interface's socket.

        Raises NotPermitted, NoRoute or ProbeError.
        """
        self._port = port
        self._shares_port = shares_port
        super().__init__(family, source, egress=egress)

    def _bind(self, source: str | None) -> int:
        if self.family == 6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if self._shares_port:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.socket.bind((source or "", self._port))
        except PermissionError as error:
            self.socket.close()
            raise NotPermitted(permission_advice(self._port)) from error
        except OSError as error:
            self.socket.close()
            if error.errno == errno.EADDRINUSE:
                raise ProbeError(f"UDP port {self._port} is in use; end the program that uses it") from error
            raise ProbeError(f"UDP port {self._port} of {source or 'this host'}: {error.strerror}") from error
        port: int = self.socket.getsockname()[1]
        return port

    def _set_up(self) -> int:
        stamps = super()._set_up()
        self.socket.setsockopt(*RECEIVE_LOCAL_ADDRESS[self.family], 1)
        return stamps

    def reply_batch(self, names: Bytes, rows: int, data_bytes: int) -> ReplyBatch:
        return ReplyBatch(self.descriptor, self.family, names, self._name_bytes, rows, data_bytes)


def permission_advice(port: int) -> str:
    """Why ports below 1024 cannot be opened, and fixes."""
    return (
        f"no permission to open UDP port {port}: as root, run "
        f"`sysctl -w net.ipv4.ip_unprivileged_port_start={port}`, or grant Python the capability with "
        "`setcap cap_net_bind_service+ep PYTHON`, or choose a port from 1024 on"
    )


class ReplyBatch(kernel.KernelSendBatch):
    """Replies, each with its length, from its request's destination address and with its DSCP."""

    def __init__(self, descriptor: int, family: int, names: Bytes, name_bytes: int, rows: int, data_bytes: int) -> None:
        super().__init__(descriptor, names, name_bytes, rows, data_bytes, b"")
        self._headers["iov_length"] = 1
        self._name_bytes = name_bytes
        self._local_words = LOCAL_WORDS[family]
        local_words = CONTROL_HEADER_WORDS + self._local_words + self._local_words % 2
        total = local_words + CONTROL_HEADER_WORDS + 2
        self._controls = np.zeros((rows, total), np.int32)
        self._local = self._controls[:, CONTROL_HEADER_WORDS : CONTROL_HEADER_WORDS + self._local_words]
        self._traffic_class = self._controls[:, local_words + CONTROL_HEADER_WORDS]
        lengths = self._controls.view(np.int64)
        lengths[:, 0] = 4 * (CONTROL_HEADER_WORDS + self._local_words)
        lengths[:, local_words // 2] = 4 * (CONTROL_HEADER_WORDS + 1)
        self._controls[:, 2:4] = kernel.LOCAL_ADDRESS_MESSAGES[family == 6]
        self._controls[:, local_words + 2 : local_words + 4] = TRAFFIC_CLASS[family]
        self._headers["control"] = kernel.row_addresses(self._controls)
        self._headers["control_length"] = 4 * total

    def set_replies(
        self, destinations: Int64s, lengths: Int64s, traffic_class: Int64s, local_address: np.ndarray | None
    ) -> None:
        """Set destinations, lengths, traffic classes and our addresses; routing chooses the interface unless
        link-local."""
        rows = len(destinations)
        self._headers["name"][:rows] = self._name_pointers[destinations]
        self._iov["length"][:rows, 0] = lengths
        self._traffic_class[:rows] = traffic_class
        if local_address is None:
            self._local[:rows] = 0
            return
        self._local[:rows] = local_address[:, : self._local_words]
        if self._local_words == LOCAL_WORDS[4]:
            # ipi_ifindex 0: the route decides.
            self._local[:rows, 0] = 0
        else:
            first_bytes = np.ascontiguousarray(local_address[:, :1]).view(np.uint8)
            is_link_local = (first_bytes[:, 0] == 0xFE) & (first_bytes[:, 1] & 0xC0 == 0x80)
            self._local[:rows, 4] = np.where(is_link_local, local_address[:, 4], 0)
