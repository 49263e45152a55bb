"""ICMP on the wire, built with `struct` from the RFCs, and a partly sent session, for the tests of the receiver.

Nothing here is computed by the code under test, except that a session's requests are those of its `EchoFormat`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from probes.packets.engine.packet_outcomes import PacketTable, SendPattern
from probes.packets.engine.receiver import ReplyMatcher, message_bytes
from probes.packets.icmp import kernel
from probes.packets.icmp.clock import StampClock
from probes.packets.icmp.echo import EchoFormat

IDENTIFIER = 0xBEEF
SECRET = b"ten octets"
OTHER_SECRET = b"last years"
SECOND = 1_000_000_000
CLOCK_OFFSET_NS = 1_700_000_000 * SECOND
REQUEST = {4: 8, 6: 128}
REPLY = {4: 0, 6: 129}
PROTOCOL = {4: 1, 6: 58}
OUR_HOST = {4: bytes([192, 0, 2, 250]), 6: socket.inet_pton(socket.AF_INET6, "2001:db8::fa")}
ROUTER = {4: bytes([198, 51, 100, 1]), 6: socket.inet_pton(socket.AF_INET6, "2001:db8:1::1")}


@dataclass(frozen=True)
class Form:
    """The form of a socket's messages: raw IPv4 with the IP header, raw IPv6 without, errors among the replies of
    both."""

    family: int
    is_raw: bool

    def __str__(self) -> str:
        return f"{'raw' if self.is_raw else 'datagram'}-ipv{self.family}"

    @property
    def has_ip_header(self) -> bool:
        return self.is_raw and self.family == 4


FORMS = [Form(4, True), Form(6, True), Form(4, False), Form(6, False)]


def rfc1071(data: bytes) -> int:
    """The checksum as defined in RFC 1071 section 4.1, word by word in network order."""
    total = 0
    for high, low in zip(data[::2], (data + b"\0")[1::2], strict=False):
        total += (high << 8) + low
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def checked(icmp: bytes) -> bytes:
    """The ICMP message with the correct checksum."""
    blank = icmp[:2] + b"\0\0" + icmp[4:]
    return icmp[:2] + struct.pack(">H", rfc1071(blank)) + icmp[4:]


def ipv4(source: bytes, target: bytes, payload: bytes, *, options: int = 0, protocol: int = 1, ttl: int = 57) -> bytes:
    """RFC 791 section 3.1, with so many words of options (no operation)."""
    size = 20 + 4 * options + len(payload)
    fixed = struct.pack(">BBHHHBBH4s4s", 0x45 + options, 0, size & 0xFFFF, 7, 0, ttl, protocol, 0, source, target)
    return fixed + b"\1" * (4 * options) + payload


def ipv6(source: bytes, target: bytes, payload: bytes, *, next_header: int = 58) -> bytes:
    """RFC 8200 section 3."""
    return struct.pack(">IHBB16s16s", 6 << 28, len(payload), next_header, 57, source, target) + payload


def ip(family: int, source: bytes, target: bytes, payload: bytes) -> bytes:
    return ipv4(source, target, payload) if family == 4 else ipv6(source, target, payload)


def icmp_error(icmp_type: int, icmp_code: int, quoted: bytes, rest: bytes = bytes(4)) -> bytes:
    """RFC 792 and RFC 4443: type, code, checksum, four bytes that depend on the type, the quoted packet."""
    return checked(struct.pack(">BBH4s", icmp_type, icmp_code, 0, rest) + quoted)


@dataclass(frozen=True)
class Arrival:
    """A message from the kernel, with its sender and its control messages."""

    data: bytes
    source: bytes
    control: bytes = b""


class PartialSession:
    """A session with some packets sent, and the `ReplyMatcher` that fills its table."""

    def __init__(
        self,
        form: Form,
        *,
        targets: int = 3,
        sizes: tuple[int, ...] = (16, 61),
        count: int = 2,
        sent: int | None = None,
        refused: Iterable[int] = (),
        secret: bytes = SECRET,
    ) -> None:
        self.form, self.family, self.targets = form, form.family, targets
        self.table = PacketTable(targets, SendPattern(sizes, count, 1.0, 2.0))
        self.now_ns = 100 * SECOND
        self.hosts = [ROUTER[self.family][:-1] + bytes([100 + rank]) for rank in range(targets)]
        padding = bytes(1 + place % 251 for place in range(max(sizes) - 16))
        self.format = EchoFormat(
            self.family,
            IDENTIFIER,
            secret,
            padding,
            np.array([0x1234 + 0x1111 * rank for rank in range(targets)]) & 0x7FFF,
            ip_header=form.has_ip_header,
            errors_among_replies=form.is_raw,
        )
        self.matcher = ReplyMatcher(
            self.format,
            self.table,
            np.array([list(host) for host in self.hosts], np.uint8),
            StampClock(lambda: (0, CLOCK_OFFSET_NS)),
        )
        self.width = message_bytes(self.format, max(sizes))
        self.send(self.table.total if sent is None else sent)
        self.refuse(refused)

    def send(self, packets: int) -> None:
        first = self.table.next
        self.table.next = min(self.table.total, first + packets)
        self.table.called_ns[first : self.table.next] = self.now_ns

    def refuse(self, packets: Iterable[int]) -> None:
        for packet in packets:
            self.table.refused_errno[packet] = 101

    def host(self, packet: int) -> bytes:
        return self.hosts[packet % self.targets]

    def request(self, packet: int, *, sequence: int | None = None, size: int | None = None) -> bytes:
        """The ICMP message of a request in the session's format; over IPv6 with some checksum, as from the kernel."""
        turn = packet // self.targets
        if size is None:
            size = int(self.table.packet_bytes[turn % len(self.table.packet_bytes)])
        heads = np.zeros((1, 24), np.uint8)
        self.format.prepare(heads)
        turns, ranks = np.array([turn if sequence is None else sequence]), np.array([packet % self.targets])
        self.format.write(heads, np.array([packet]), turns, ranks, np.array([self.format.tail_sum(size)]))
        icmp = heads.tobytes() + self.format.padding[: size - 16]
        return icmp if self.family == 4 else checked(icmp)

    def reply(self, packet: int, *, sequence: int | None = None, size: int | None = None) -> bytes:
        """RFC 792: the type changed, the checksum recomputed, the data returned."""
        request = self.request(packet, sequence=sequence, size=size)
        return checked(bytes([REPLY[self.family]]) + request[1:])

    def quoted(self, packet: int, icmp: bytes | None = None, *, host: bytes | None = None) -> bytes:
        """The IP packet that an error about this packet quotes."""
        icmp = self.request(packet) if icmp is None else icmp
        return ip(self.family, OUR_HOST[self.family], self.host(packet) if host is None else host, icmp)

    def arrival(self, icmp: bytes, source: bytes, *, options: int = 0, ttl: int = 57, control: bytes = b"") -> Arrival:
        """The ICMP message in this form of socket."""
        if self.form.has_ip_header:
            icmp = ipv4(source, OUR_HOST[4], icmp, options=options, ttl=ttl)
        return Arrival(icmp, source, control)

    def answer(self, packet: int, **how: int) -> Arrival:
        return self.arrival(self.reply(packet), self.host(packet), **how)

    def deliver(self, arrivals: Sequence[Arrival]) -> None:
        """Enter these messages as a batch. Each row ends with bytes of an earlier message.

        A datagram socket does not report the full length of a message longer than a row.
        """
        data, lengths = rows_of([arrival.data for arrival in arrivals], self.width, self.answer(0).data)
        if not self.form.is_raw:
            lengths = np.minimum(lengths, self.width)
        sources = np.array([list(arrival.source) for arrival in arrivals], np.uint8)
        self.matcher.match_messages(
            data, lengths, sources, controls_of([arrival.control for arrival in arrivals]), self.now_ns
        )

    def queue(self, arrivals: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Enter these messages of a datagram socket's error queue: quoted packet, destination, control messages."""
        data, lengths = rows_of([quoted for quoted, _, _ in arrivals], 64, self.request(0))
        hosts = np.array([list(host) for _, host, _ in arrivals], np.uint8)
        controls = controls_of([control for _, _, control in arrivals])
        self.matcher.match_queued_errors(data, np.minimum(lengths, 64), hosts, controls, self.now_ns)

    @property
    def replies(self) -> list[int]:
        return self.table.replies.tolist()

    @property
    def errors(self) -> list[tuple[int, int, int, int, bytes]]:
        """The stored ICMP errors: packet, type, code, MTU and router of each, by packet. Without replies that do not
        count."""
        errors = self.table.results(np.arange(self.targets), 2 * SECOND, 0).errors
        packets = (errors.turn * self.targets + errors.target).tolist()
        about = (packets, errors.icmp_type.tolist(), errors.icmp_code.tolist(), errors.mtu_bytes.tolist())
        stored = sorted(zip(*about, [bytes(router) for router in errors.router.tolist()], strict=True))
        return [error for error in stored if error[1] != REPLY[self.family]]


def rows_of(messages: Sequence[bytes], width: int, stale: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The messages as rows, truncated to the width, and their full lengths."""
    filling = np.frombuffer((stale * (width // len(stale) + 1))[:width], np.uint8)
    data = np.tile(filling, (len(messages), 1))
    for row, message in enumerate(messages):
        data[row, : min(width, len(message))] = np.frombuffer(message[:width], np.uint8)
    return data, np.array([len(message) for message in messages], np.int64)


def controls_of(rows: Sequence[bytes]) -> kernel.Controls:
    control = np.zeros((len(rows), kernel.CONTROL_WORDS), np.int64)
    for row, data in enumerate(rows):
        control[row].view(np.uint8)[: len(data)] = np.frombuffer(data, np.uint8)
    return kernel.read_controls(control, np.array([len(data) for data in rows]))


def control_messages(*messages: tuple[int, int, bytes]) -> bytes:
    """Control messages as cmsg(3) lays them out: length 8, level 4, type 4, data, padded to 8."""
    return b"".join(
        struct.pack("=qii", 16 + len(data), level, kind) + data + bytes(-len(data) % 8)
        for level, kind, data in messages
    )


def stamps(*, kernel_ns: int = 0, hardware_ns: int = 0) -> tuple[int, int, bytes]:
    """`struct scm_timestamping`: the kernel's timestamp, an obsolete field, the interface's timestamp."""
    words = (*divmod(kernel_ns, SECOND), 0, 0, *divmod(hardware_ns, SECOND))
    return (socket.SOL_SOCKET, 37, struct.pack("=6q", *words))


def extended_error(
    family: int,
    *,
    code: int,
    origin: int,
    kind: int = 0,
    icmp_code: int = 0,
    info: int = 0,
    data: int = 0,
    offender: bytes = b"",
) -> tuple[int, int, bytes]:
    """`struct sock_extended_err` followed by the offender's address (ip(7), ipv6(7))."""
    level, message = {4: (socket.IPPROTO_IP, 11), 6: (socket.IPPROTO_IPV6, 25)}[family]
    about = struct.pack("=IBBBxII", code, origin, kind, icmp_code, info, data)
    if family == 4:
        address = struct.pack("=HH4s8x", socket.AF_INET, 0, offender or bytes(4))
    else:
        address = struct.pack("=HHI16sI", socket.AF_INET6, 0, 0, offender or bytes(16), 0)
    return (level, message, about + address)
