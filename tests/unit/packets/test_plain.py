"""Plain sockets without a network: messages as operating systems deliver them, failing sends, and the choice between
the tools."""

from __future__ import annotations

import ctypes
import errno
import ipaddress
import socket
import struct
from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.contract import Deadline, NoRoute, NotPermitted, ProbeError
from probes.packets.burst import PING, Choice, IcmpProbe, PlainIcmpProbe
from probes.packets.engine import plain
from probes.packets.engine.receiver import HOST_COLUMNS
from probes.packets.engine.sender import pack_address
from probes.packets.icmp import kernel
from probes.packets.icmp.icmp_errors import MOST_BYTES
from probes.packets.spec import PingSpec, PingTarget
from tests.facts import lacks
from tests.unit.ping_wire import IDENTIFIER, OUR_HOST, ROUTER, Form, PartialSession, checked, icmp_error, ipv4

REWRITTEN = 0x1234
FAMILIES = pytest.mark.parametrize("family", [4, 6])


class PlainForm(Form):
    """The form of messages in `plain.PlainReceiveBatch` for any socket: no IP header, errors among the replies."""

    @property
    def has_ip_header(self) -> bool:
        return False


class FakeSocket:
    """A socket that delivers the messages it is given, and stores or refuses the messages to send."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[bytes, tuple[object, ...]] | OSError] = deque()
        self.sent: list[tuple[bytes, tuple[object, ...]]] = []
        self.refusal: int | None = None

    def recvfrom_into(self, buffer: memoryview) -> tuple[int, tuple[object, ...]]:
        if not self.waiting:
            raise BlockingIOError
        packet = self.waiting.popleft()
        if isinstance(packet, OSError):
            raise packet
        message, address = packet
        length = min(len(message), len(buffer))
        buffer[:length] = message[:length]
        return length, address

    def sendto(self, message: bytes, address: tuple[object, ...]) -> None:
        if self.refusal is not None:
            raise OSError(self.refusal, "refused")
        self.sent.append((message, address))


class Receiving:
    """A session with all requests sent, and a receive batch whose messages go into its packet table."""

    def __init__(self, family: int = 4, rows: int = 8) -> None:
        self.family = family
        self.session = PartialSession(PlainForm(family, is_raw=True))
        self.socket = FakeSocket()
        self.receive_batch = plain.PlainReceiveBatch(self.socket, family, IDENTIFIER, rows, MOST_BYTES)  # type: ignore[arg-type]

    def arrive(self, message: bytes, source: bytes) -> None:
        host = socket.inet_ntop(socket.AF_INET if self.family == 4 else socket.AF_INET6, source)
        self.socket.waiting.append((message, (host, 0) if self.family == 4 else (host, 0, 0, 0)))

    def take(self) -> int:
        count = self.receive_batch.receive()
        sources = self.receive_batch.names[:count, HOST_COLUMNS[self.family]]
        data, lengths = self.receive_batch.data[:count], self.receive_batch.lengths(count)
        self.session.matcher.match_messages(
            data, lengths, sources, self.receive_batch.controls(count), self.session.now_ns
        )
        return count


def with_identifier(icmp: bytes, identifier: int) -> bytes:
    return checked(icmp[:4] + struct.pack(">H", identifier) + icmp[6:])


@FAMILIES
@pytest.mark.parametrize("identifier", [IDENTIFIER, REWRITTEN])
def test_a_reply_matches_by_our_identifier_or_the_systems(family, identifier):
    receiving = Receiving(family)
    receiving.arrive(with_identifier(receiving.session.reply(4), identifier), receiving.session.host(4))

    receiving.take()

    assert [packet for packet, replies in enumerate(receiving.session.replies) if replies] == [4]


@pytest.mark.parametrize("options", [0, 1, 10])
def test_an_ip_header_is_stripped_and_gives_the_ttl(options):
    receiving = Receiving()
    reply, host = receiving.session.reply(4), receiving.session.host(4)
    receiving.arrive(ipv4(host, OUR_HOST[4], reply, options=options, ttl=61), host)

    receiving.take()

    assert (receiving.session.replies[4], receiving.session.table.hop_limit[4]) == (1, 61)


@FAMILIES
def test_without_an_ip_header_the_ttl_is_unknown(family):
    receiving = Receiving(family)
    receiving.arrive(receiving.session.reply(0), receiving.session.host(0))

    receiving.take()

    assert (receiving.session.replies[0], receiving.session.table.hop_limit[0]) == (1, -1)


def test_a_corrupted_reply_is_ignored():
    receiving = Receiving()
    reply, host = receiving.session.reply(4), receiving.session.host(4)
    receiving.arrive(ipv4(host, OUR_HOST[4], reply[:-1] + bytes([reply[-1] ^ 1])), host)

    assert receiving.take() == 0


@FAMILIES
def test_another_programs_pings_are_ignored(family):
    receiving = Receiving(family)
    stranger = PartialSession(PlainForm(family, is_raw=True), secret=b"another's.")
    receiving.arrive(with_identifier(stranger.reply(4), IDENTIFIER), receiving.session.host(4))
    receiving.arrive(receiving.session.reply(4), receiving.session.host(5))
    receiving.arrive(receiving.session.request(4), receiving.session.host(4))

    receiving.take()

    assert sum(receiving.session.replies) == 0


@given(st.lists(st.binary(max_size=200), max_size=12))
def test_any_message_is_read_and_ignored(messages):
    receiving = Receiving()
    for message in messages:
        receiving.arrive(message, receiving.session.host(0))
        receiving.arrive(b"\x45" + message, receiving.session.host(0))

    while receiving.take():
        continue

    assert not receiving.socket.waiting
    assert sum(receiving.session.replies) == 0


def test_each_reply_has_the_time_at_which_it_was_read(monkeypatch):
    receiving = Receiving(rows=3)
    clock = iter(range(receiving.session.now_ns + 1_000, receiving.session.now_ns + 9_000, 1_000))
    monkeypatch.setattr(plain, "time", SimpleNamespace(monotonic_ns=lambda: next(clock)))
    receiving.arrive(receiving.session.request(2), receiving.session.host(2))
    for packet in (3, 0, 1):
        receiving.arrive(receiving.session.reply(packet), receiving.session.host(packet))

    counts = [receiving.take(), receiving.take(), receiving.take()]

    assert counts == [3, 1, 0]
    arrived_ns = receiving.session.table.arrived_ns - receiving.session.now_ns
    assert arrived_ns[[3, 0, 1]].tolist() == [2_000, 3_000, 4_000]
    assert not receiving.session.table.arrival_trusted.any()


def test_an_error_keeps_its_router_if_bsd_changed_its_length():
    receiving = Receiving()
    error = bytearray(icmp_error(3, 13, receiving.session.quoted(4)))
    error[8 + 2 : 8 + 4] = error[8 + 3], error[8 + 2]
    receiving.arrive(ipv4(ROUTER[4], OUR_HOST[4], bytes(error)), ROUTER[4])

    receiving.take()

    assert receiving.session.errors == [(4, 3, 13, 0, ROUTER[4])]


def test_an_error_about_an_earlier_packet_does_not_stop_reading():
    receiving = Receiving()
    receiving.socket.waiting.append(OSError(errno.ECONNREFUSED, "refused"))
    receiving.arrive(receiving.session.reply(0), receiving.session.host(0))

    assert receiving.take() == 1


def send_batch(opened: FakeSocket) -> plain.PlainSendBatch:
    batch = plain.PlainSendBatch(opened, [("192.0.2.1", 0), ("192.0.2.2", 0)], 3, 4, b"tail")  # type: ignore[arg-type]
    batch.heads[:] = np.frombuffer(b"AAAABBBBCCCC", np.uint8).reshape(3, 4)
    batch.set_destinations(np.array([1, 0, 1]), np.array([0, 4, 2]))
    return batch


def test_packets_are_sent_singly_each_to_its_own_address():
    opened = FakeSocket()
    batch = send_batch(opened)

    taken = [batch.send(0, 3), batch.send(1, 3), batch.send(2, 3)]

    assert taken == [1, 1, 1]
    assert opened.sent == [(b"AAAA", ("192.0.2.2", 0)), (b"BBBBtail", ("192.0.2.1", 0)), (b"CCCCta", ("192.0.2.2", 0))]


def test_a_neighbour_cached_as_down_by_bsd_is_a_loss_no_error():
    opened = FakeSocket()
    opened.refusal = errno.EHOSTDOWN

    assert send_batch(opened).send(0, 1) == 1


def test_a_refusal_by_the_system_is_raised():
    opened = FakeSocket()
    opened.refusal = errno.EHOSTUNREACH

    with pytest.raises(OSError, match="refused") as refused:
        send_batch(opened).send(0, 1)

    assert refused.value.errno == errno.EHOSTUNREACH


@given(st.ip_addresses(), st.integers(0, 2**32 - 1))
def test_an_address_survives_packing(address, scope):
    given_address = (str(address), 0) if address.version == 4 else (str(address), 0, 0, scope)

    name = np.frombuffer(pack_address(address.version, given_address), np.uint8)
    host, *rest = plain.unpack_address(address.version, name)

    assert ipaddress.ip_address(host) == address
    assert rest == list(given_address[1:])


class Tool:
    """A probe that can or cannot run, and whose result is its own name."""

    def __init__(self, name: str, *reasons: str) -> None:
        self.name = name
        self.reasons = list(reasons)

    def can_run(self, spec: str) -> list[str]:
        return self.reasons

    def run(self, spec: str, deadline: Deadline) -> str:
        return f"{spec} by {self.name}"


@pytest.mark.parametrize(
    ("tools", "measured_by", "reasons"),
    [
        ([Tool("best"), Tool("next")], "best", []),
        ([Tool("best", "no kernel"), Tool("next"), Tool("last")], "next", []),
        ([Tool("best", "no kernel"), Tool("next", "no right")], "next", ["no kernel", "no right"]),
        ([Tool("best", "no right"), Tool("next", "no right")], "next", ["no right"]),
    ],
)
def test_the_first_working_tool_measures_else_reasons_are_given(tools, measured_by, reasons):
    choice = Choice(*tools)

    assert choice.can_run("x") == reasons
    assert choice.run("x", Deadline(1.0)) == f"x by {measured_by}"


def refusing(monkeypatch: pytest.MonkeyPatch, refusals: dict[socket.SocketKind, int]) -> list[socket.SocketKind]:
    """Refuse to open any socket, with a reason per kind. Returns the kinds in the order in which they are tried."""
    tried: list[socket.SocketKind] = []

    def opened(family: int, kind: socket.SocketKind, protocol: int) -> socket.socket:
        tried.append(kind)
        raise OSError(refusals[kind], "refused")

    monkeypatch.setattr(socket, "socket", opened)
    return tried


@pytest.mark.parametrize(
    ("datagram", "raw", "raised"),
    [
        (errno.EACCES, errno.EPERM, NotPermitted),
        (errno.EPROTONOSUPPORT, errno.EPERM, NotPermitted),
        (errno.EAFNOSUPPORT, errno.EPERM, NoRoute),
        (errno.EMFILE, errno.EMFILE, ProbeError),
    ],
)
def test_a_socket_that_cannot_be_opened_has_its_outcome(monkeypatch, datagram, raw, raised):
    refusing(monkeypatch, {socket.SOCK_DGRAM: datagram, socket.SOCK_RAW: raw})

    with pytest.raises(ProbeError) as error:
        plain.PlainChannel(4)

    assert type(error.value) is raised


def test_the_socket_that_needs_no_privilege_is_tried_first(monkeypatch):
    tried = refusing(monkeypatch, {socket.SOCK_DGRAM: errno.EACCES, socket.SOCK_RAW: errno.EPERM})

    with pytest.raises(NotPermitted):
        plain.PlainChannel(6)

    assert tried == [socket.SOCK_DGRAM, socket.SOCK_RAW]


SPEC = PingSpec(targets=(PingTarget(address="192.0.2.1"), PingTarget(address="2001:db8::1", family=6)))


def test_a_missing_address_family_does_not_stop_the_other(monkeypatch):
    refusing(monkeypatch, dict.fromkeys((socket.SOCK_DGRAM, socket.SOCK_RAW), errno.EAFNOSUPPORT))

    assert PlainIcmpProbe().can_run(SPEC) == []


def test_without_permission_both_tools_report_it_once(monkeypatch):
    refusing(monkeypatch, dict.fromkeys((socket.SOCK_DGRAM, socket.SOCK_RAW), errno.EPERM))

    reasons = PING.can_run(SPEC)

    assert [reason.partition(":")[0] for reason in reasons] == ["ping over IPv4", "ping over IPv6"]


def test_batches_need_linux(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")

    (reason,) = IcmpProbe().can_run(SPEC)
    assert lacks(reason, "ping: ", "kernel timestamps", "64-bit Linux") == []


def forbidden(*_: object) -> int:
    """The call as a sandbox refuses it."""
    ctypes.set_errno(errno.EPERM)
    return -1


def without_a_socket(*_: object) -> int:
    """The call as the kernel refuses it without a socket."""
    ctypes.set_errno(errno.EBADF)
    return -1


@pytest.mark.parametrize(
    ("calls", "missing"),
    [
        ({"sendmmsg": without_a_socket, "recvmmsg": without_a_socket}, []),
        ({"sendmmsg": forbidden, "recvmmsg": without_a_socket}, ["sendmmsg"]),
        ({"recvmmsg": forbidden}, ["sendmmsg", "recvmmsg"]),
        ({}, ["sendmmsg", "recvmmsg"]),
    ],
)
def test_absent_or_forbidden_system_calls_are_missing(monkeypatch, calls, missing):
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(**calls))
    kernel._call.cache_clear()
    try:
        missing_now = kernel.missing_calls()
    finally:
        kernel._call.cache_clear()

    assert missing_now == missing


def test_batches_need_the_system_calls(monkeypatch):
    monkeypatch.setattr(kernel, "missing_calls", lambda: ["sendmmsg", "recvmmsg"])

    (reason,) = IcmpProbe().can_run(SPEC)
    assert "sendmmsg and recvmmsg" in reason


def test_an_invalid_spec_is_reported_once_by_two_tools(monkeypatch):
    refusing(monkeypatch, dict.fromkeys((socket.SOCK_DGRAM, socket.SOCK_RAW), errno.EAFNOSUPPORT))

    (reason,) = PING.can_run(PingSpec(targets=SPEC.targets, count=0))
    assert reason.startswith("count 0: ")
    assert reason.endswith(" from 1 to 10000")


def test_dont_fragment_is_refused_where_it_is_not_supported(monkeypatch):
    class OptionSocket(FakeSocket):
        def setsockopt(self, *_: object) -> None: ...
        def getsockopt(self, *_: object) -> int:
            return 1 << 20

        def setblocking(self, _: bool) -> None: ...
        def close(self) -> None: ...

    monkeypatch.setattr(socket, "socket", lambda *_: OptionSocket())
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr(socket, "IPV6_DONTFRAG", 62, raising=False)

    uncut = PingSpec(targets=SPEC.targets, dont_fragment=True)

    [reason] = PlainIcmpProbe().can_run(uncut)
    assert "not supported for IPv4" in reason
    assert PlainIcmpProbe().can_run(PingSpec(targets=SPEC.targets)) == []


def test_bursts_never_sent_report_nothing_about_clocks(monkeypatch):
    refusing(monkeypatch, dict.fromkeys((socket.SOCK_DGRAM, socket.SOCK_RAW), errno.EAFNOSUPPORT))

    bursts = PlainIcmpProbe().run(PingSpec(targets=SPEC.targets[:1], count=1), Deadline(5.0))

    assert {(burst.stamp, burst.detail) for burst in bursts} == {(None, "this machine has no IPv4")}
