"""One ICMP socket: opened with what this process is permitted, filtered, stamping. Bytes in, bytes out.

Raw where that is permitted, else the unprivileged datagram ICMP socket, else `NotPermitted` naming the setting to
change. A datagram socket writes its own port as the identifier and takes the IP header off replies.
"""

from __future__ import annotations

import ctypes
import errno
import secrets
import socket
import struct
from contextlib import suppress

from probes.contract import NoRoute, NotPermitted, ProbeError
from probes.ping import echo, kernel

RECEIVE_BUFFER_BYTES = 16 << 20
BIND_ATTEMPTS = 16
SOL_RAW = 255
ICMP_FILTER = 1
ICMP6_FILTER = 1
IP_RECVTTL = 12
SO_MEMINFO = 55
SK_MEMINFO_VARS = 9
SK_MEMINFO_WMEM_ALLOC = 2
SK_MEMINFO_SNDBUF = 3
SK_MEMINFO_DROPS = 8

FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
PROTOCOL = {4: socket.IPPROTO_ICMP, 6: socket.IPPROTO_ICMPV6}

PERMISSION_ADVICE = (
    "this process may not open an ICMP socket: as root, run "
    '`sysctl -w net.ipv4.ping_group_range="0 2147483647"`, or give its Python the capability with '
    "`setcap cap_net_raw+ep PYTHON`"
)


class Channel:
    """An open ICMP socket of one family, bound to `source` if that is an address of ours."""

    def __init__(self, family: int, source: str | None = None) -> None:
        """Raises NotPermitted, NoRoute (no such family on this machine) or ProbeError."""
        self.family = family
        self.socket, self.is_raw = _open(family)
        try:
            self.identifier = self._bind(source)
            self._filter()
            self._size_buffer()
            self.is_stamped = self._ask_for_stamps()
            self._ask_for_hop_limits()
        except OSError as error:
            self.socket.close()
            raise ProbeError(f"the ICMP socket could not be set up: {error.strerror}") from error

    @property
    def descriptor(self) -> int:
        return self.socket.fileno()

    @property
    def receive_buffer_bytes(self) -> int:
        return self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)

    @property
    def has_ip_header(self) -> bool:
        """Whether what it receives begins with the IPv4 header."""
        return self.is_raw and self.family == 4

    @property
    def dropped(self) -> int:
        """How many messages the kernel had to throw away because our receive buffer was full."""
        return self._memory()[SK_MEMINFO_DROPS]

    @property
    def send_room_bytes(self) -> int:
        """What the send buffer still takes. Its size is the system's default: less than an interface's queue holds,
        so that a slow link stops us here and drops nothing there."""
        memory = self._memory()
        return max(0, memory[SK_MEMINFO_SNDBUF] - memory[SK_MEMINFO_WMEM_ALLOC])

    def _memory(self) -> tuple[int, ...]:
        counts = self.socket.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 4 * SK_MEMINFO_VARS)
        return struct.unpack(f"{SK_MEMINFO_VARS}I", counts)

    def close(self) -> None:
        self.socket.close()

    def restart_stamp_keys(self) -> None:
        """Make the kernel number the stamps of the next packets from 0 again. Packets already sent keep theirs."""
        if self.is_stamped:
            self._set_stamps(kernel.STAMPS & ~kernel.STAMP_OPT_ID)
            self._set_stamps(kernel.STAMPS)

    def _bind(self, source: str | None) -> int:
        """Bind to the source where it is ours. Returns the identifier: random, or the port the socket could have."""
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
        """Let only echo replies with our identifier in: a busy host's other ICMP must not fill our buffer."""
        if not self.is_raw:
            return
        reply = echo.ECHO_REPLY[self.family]
        if self.family == 4:
            self.socket.setsockopt(SOL_RAW, ICMP_FILTER, struct.pack("I", 0xFFFFFFFF & ~(1 << reply)))
        else:
            blocked = [0xFFFFFFFF] * 8
            blocked[reply >> 5] &= ~(1 << (reply & 31))
            self.socket.setsockopt(socket.IPPROTO_ICMPV6, ICMP6_FILTER, struct.pack("8I", *blocked))
        _attach(self.socket, identifier_program(self.identifier, ip_header=self.family == 4))

    def _size_buffer(self) -> None:
        for option in (socket.SO_RCVBUF, kernel.SO_RCVBUFFORCE):
            with suppress(PermissionError):
                self.socket.setsockopt(socket.SOL_SOCKET, option, RECEIVE_BUFFER_BYTES)

    def _ask_for_hop_limits(self) -> None:
        if self.family == 6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        elif not self.has_ip_header:
            self.socket.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)

    def _ask_for_stamps(self) -> bool:
        try:
            self._set_stamps(kernel.STAMPS)
        except OSError:
            return False
        return True

    def _set_stamps(self, flags: int) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, kernel.SO_TIMESTAMPING, flags)


def _open(family: int) -> tuple[socket.socket, bool]:
    """The socket, and whether it is raw."""
    for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
        try:
            opened = socket.socket(FAMILY[family], kind | socket.SOCK_NONBLOCK, PROTOCOL[family])
        except PermissionError:
            continue
        except OSError as error:
            if error.errno == errno.EAFNOSUPPORT:
                raise NoRoute(f"this machine has no IPv{family}") from error
            raise ProbeError(f"the ICMP socket could not be opened: {error.strerror}") from error
        return opened, kind == socket.SOCK_RAW
    raise NotPermitted(PERMISSION_ADVICE)


Instruction = tuple[int, int, int, int]
"""Of a classic BPF program: code, jump if true, jump if false, operand."""


def identifier_program(identifier: int, *, ip_header: bool) -> list[Instruction]:
    """Pass a message if its ICMP identifier is `identifier`, looked for behind the IPv4 header where there is one."""
    load_behind_ip_header = [(0xB1, 0, 0, 0), (0x48, 0, 0, 4)]
    load = [(0x28, 0, 0, 4)]
    compare = [(0x15, 0, 1, identifier), (0x06, 0, 0, 0x40000), (0x06, 0, 0, 0)]
    return (load_behind_ip_header if ip_header else load) + compare


def _attach(opened: socket.socket, program: list[Instruction]) -> None:
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in program))
    opened.setsockopt(
        socket.SOL_SOCKET, kernel.SO_ATTACH_FILTER, struct.pack("HP", len(program), ctypes.addressof(code))
    )
