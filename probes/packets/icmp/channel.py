"""An ICMP socket with a packet filter and kernel timestamps, on 64-bit Linux.

A raw socket if permitted, else a datagram socket, which has its port as identifier and strips IP headers, else
`NotPermitted` with the setting to change.
"""

from __future__ import annotations

import errno
import secrets
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import ClassVar, Protocol

from probes.contract import NoRoute, NotPermitted, ProbeError
from probes.packets.addresses import FAMILY
from probes.packets.arrays import Bytes, Int64s
from probes.packets.egress import ANY, Egress, open_within, prepare
from probes.packets.icmp import echo, icmp_errors, kernel
from probes.packets.icmp.packet_filter import attach, program

RECEIVE_BUFFER_BYTES = 16 << 20
BIND_ATTEMPTS = 16
SOL_RAW = 255
ICMP_FILTER = 1
ICMP6_FILTER = 1
IP_RECVTTL = 12
SO_MEMINFO = 55
SK_MEMINFO = struct.Struct("9I")
SK_MEMINFO_WMEM_ALLOC = 2
SK_MEMINFO_SNDBUF = 3
SK_MEMINFO_DROPS = 8
ERROR_QUEUE_DATA_BYTES = 64

EXTENSIONS = {
    4: (socket.IPPROTO_IP, kernel.IP_RECVERR_RFC4884),
    6: (socket.IPPROTO_IPV6, kernel.IPV6_RECVERR_RFC4884),
}
MTU_DISCOVER = {4: (socket.IPPROTO_IP, 10), 6: (socket.IPPROTO_IPV6, 23)}
PMTUDISC_DO = 2
RECEIVE_ERRORS = {4: (socket.IPPROTO_IP, kernel.IP_RECVERR), 6: (socket.IPPROTO_IPV6, kernel.IPV6_RECVERR)}

PROTOCOL = {4: socket.IPPROTO_ICMP, 6: socket.IPPROTO_ICMPV6}

PERMISSION_ADVICE = "no permission to open an ICMP socket: run as root"
LINUX_PERMISSION_ADVICE = (
    "no permission to open an ICMP socket: as root, run "
    '`sysctl -w net.ipv4.ping_group_range="0 2147483647"`, or grant Python the capability with '
    "`setcap cap_net_raw+ep PYTHON`"
)


class SendBatch(Protocol):
    """A batch of messages to send, such as `probes.packets.icmp.kernel.KernelSendBatch`."""

    heads: Bytes

    def set_destinations(self, destinations: Int64s, tail_bytes: Int64s) -> None: ...
    def send(self, first: int, stop: int) -> int: ...


class ReceiveBatch(Protocol):
    """A batch of received messages, such as `probes.packets.icmp.kernel.KernelReceiveBatch`."""

    rows: int
    data: Bytes
    names: Bytes

    def receive(self) -> int: ...
    def lengths(self, count: int) -> Int64s: ...
    def controls(self, count: int) -> kernel.Controls: ...


class Channel:
    """An open ICMP socket of a family, bound to `source` if local."""

    NAME: ClassVar[str] = "ICMP"
    KINDS: Sequence[socket.SocketKind] = (socket.SOCK_RAW, socket.SOCK_DGRAM)
    PROTOCOLS: ClassVar[Mapping[int, int]] = PROTOCOL

    def __init__(
        self, family: int, source: str | None = None, *, dont_fragment: bool = False, egress: Egress = ANY
    ) -> None:
        """Raises NotPermitted, NoRoute (family, interface or namespace missing) or ProbeError."""
        self.family = family
        self.socket, self.is_raw = open_within(egress, lambda: _open(family, self.KINDS, self.PROTOCOLS[family]))
        try:
            prepare(self.socket, family, egress)
            self.identifier = self._bind(source)
            self.stamps = self._set_up()
            if dont_fragment:
                self._forbid_fragments()
        except ProbeError:
            self.socket.close()
            raise
        except OSError as error:
            self.socket.close()
            raise ProbeError(f"the {self.NAME} socket could not be set up: {error.strerror}") from error

    def _set_up(self) -> int:
        self._filter()
        self._size_buffer()
        stamps = self._ask_for_stamps()
        self._ask_for_hop_limits()
        self._ask_for_errors()
        # Fail here, before packets are sent, if kernel or sandbox does not support SO_MEMINFO.
        self._memory()
        return stamps

    def send_batch(self, names: Bytes, rows: int, head_bytes: int, tail: bytes) -> SendBatch:
        """Allocate messages to `names`, rows of `sockaddr_in6` or `sockaddr_in`."""
        return kernel.KernelSendBatch(self.descriptor, names, self._name_bytes, rows, head_bytes, tail)

    def limited_batch(self, names: Bytes, rows: int, head_bytes: int, tail: bytes) -> kernel.KernelSendBatch:
        """As `send_batch`, with a TTL for each message."""
        return kernel.KernelSendBatch(
            self.descriptor, names, self._name_bytes, rows, head_bytes, tail, with_hop_limits=True
        )

    @property
    def _name_bytes(self) -> int:
        return kernel.SOCKADDR_BYTES if self.family == 6 else kernel.SOCKADDR_IN_BYTES

    def receive_batch(self, rows: int, data_bytes: int) -> ReceiveBatch:
        """Allocate for messages truncated to `data_bytes`."""
        # Messages of a raw IPv4 socket have the source in the IP header.
        with_names = not self.has_ip_header
        return kernel.KernelReceiveBatch(
            self.descriptor, rows, data_bytes, flags=socket.MSG_TRUNC, with_names=with_names
        )

    def error_queue(self, rows: int, data_bytes: int = ERROR_QUEUE_DATA_BYTES) -> ReceiveBatch | None:
        """Allocate for the error queue, if any; raw sockets have only send timestamps there."""
        with_names, flags = not self.is_raw, socket.MSG_ERRQUEUE
        return kernel.KernelReceiveBatch(self.descriptor, rows, data_bytes, flags=flags, with_names=with_names)

    @property
    def descriptor(self) -> int:
        return self.socket.fileno()

    @property
    def is_stamped(self) -> bool:
        return self.stamps != 0

    @property
    def receive_buffer_bytes(self) -> int:
        return self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)

    @property
    def has_ip_header(self) -> bool:
        return self.is_raw and self.family == 4

    @property
    def errors_among_replies(self) -> bool:
        """Whether ICMP errors arrive as ordinary messages."""
        return self.is_raw

    @property
    def dropped(self) -> int:
        """Messages dropped at a full receive buffer."""
        return self._memory()[SK_MEMINFO_DROPS]

    def send_room(self, charge_bytes: int) -> int:
        """Messages of `charge_bytes` that fit the send buffer.

        Smaller than an interface queue, it blocks before the interface drops.
        """
        memory = self._memory()
        return max(0, memory[SK_MEMINFO_SNDBUF] - memory[SK_MEMINFO_WMEM_ALLOC]) // charge_bytes

    def _memory(self) -> tuple[int, ...]:
        return SK_MEMINFO.unpack(self.socket.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, SK_MEMINFO.size))

    def close(self) -> None:
        self.socket.close()

    def restart_stamp_keys(self) -> None:
        """Restart timestamp keys (OPT_ID) at 0, except of sent packets."""
        if self.is_stamped:
            self._set_stamps(self.stamps & ~kernel.STAMP_OPT_ID)
            self._set_stamps(self.stamps)

    def _bind(self, source: str | None) -> int:
        """Bind to a local source; return the ICMP identifier, random or the port."""
        addresses = [source, None] if source is not None else [None]
        for address in addresses:
            for _ in range(BIND_ATTEMPTS):
                identifier = 1 + secrets.randbelow(0xFFFF)
                try:
                    self.socket.bind((address or "", 0 if self.is_raw else identifier))
                except OSError as error:
                    if error.errno == errno.EADDRINUSE:
                        continue
                    if address is None:
                        raise
                    break
                return identifier
        raise OSError(errno.EADDRINUSE, "no free ICMP identifier")

    def _filter(self) -> None:
        # Filter other ICMP traffic, which would fill the receive buffer.
        if not self.is_raw:
            return
        types = (echo.ECHO_REPLY[self.family], *icmp_errors.TYPES[self.family])
        if self.family == 4:
            blocked = 0xFFFFFFFF & ~sum(1 << icmp_type for icmp_type in types)
            self.socket.setsockopt(SOL_RAW, ICMP_FILTER, struct.pack("I", blocked))
        else:
            words = [0xFFFFFFFF] * 8
            for icmp_type in types:
                words[icmp_type >> 5] &= ~(1 << (icmp_type & 31))
            self.socket.setsockopt(socket.IPPROTO_ICMPV6, ICMP6_FILTER, struct.pack("8I", *words))
        attach(self.socket, program(self.family, self.identifier))

    def _size_buffer(self) -> None:
        for option in (socket.SO_RCVBUF, kernel.SO_RCVBUFFORCE):
            with suppress(PermissionError):
                self.socket.setsockopt(socket.SOL_SOCKET, option, RECEIVE_BUFFER_BYTES)

    def _ask_for_hop_limits(self) -> None:
        if self.family == 6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        elif not self.has_ip_header:
            self.socket.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)

    def _ask_for_errors(self) -> None:
        """Enable ICMP errors on a datagram socket."""
        if not self.is_raw:
            level, option = RECEIVE_ERRORS[self.family]
            self.socket.setsockopt(level, option, 1)

    def ask_for_extensions(self) -> None:
        """Make a datagram socket's error queue report extensions.

        Linux before 5.9 cannot, and shows no MPLS labels.
        """
        if not self.is_raw:
            with suppress(OSError):
                self.socket.setsockopt(*EXTENSIONS[self.family], 1)

    def _forbid_fragments(self) -> None:
        self.socket.setsockopt(*MTU_DISCOVER[self.family], PMTUDISC_DO)

    def _ask_for_stamps(self) -> int:
        """Enable hardware and software timestamps, else software, else none (0)."""
        for stamps in (kernel.STAMPS | kernel.HARDWARE_STAMPS, kernel.STAMPS):
            with suppress(OSError):
                self._set_stamps(stamps)
                return stamps
        return 0

    def _set_stamps(self, flags: int) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, kernel.SO_TIMESTAMPING, flags)


def _open(family: int, kinds: Sequence[socket.SocketKind], protocol: int) -> tuple[socket.socket, bool]:
    refusals = []
    for kind in kinds:
        try:
            opened = socket.socket(FAMILY[family], kind, protocol)
        except OSError as error:
            if error.errno == errno.EAFNOSUPPORT:
                raise NoRoute(f"this machine has no IPv{family}") from error
            refusals.append(error)
            continue
        opened.setblocking(False)
        return opened, kind == socket.SOCK_RAW
    if any(isinstance(refusal, PermissionError) for refusal in refusals):
        raise NotPermitted(LINUX_PERMISSION_ADVICE if sys.platform == "linux" else PERMISSION_ADVICE)
    raise ProbeError(f"the socket could not be opened: {refusals[-1].strerror}")
