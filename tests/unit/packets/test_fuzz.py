"""Everything that reaches the receiver is hostile until shown otherwise: corrupted, truncated, forged and stale
messages of any form.

A state machine sends a session's requests and delivers true replies and true errors, in any order and number, in one
batch with messages that each differ from a true one. After every step the table must equal that of a plain model that
saw only the true ones. Messages that the kernel never delivers are left out: over IPv6, and on a datagram socket, an
ICMP message with a wrong checksum; over IPv4, an IP header shorter than 20 bytes at the start of a whole message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.unit.ping_wire import (
    FORMS,
    OTHER_SECRET,
    REPLY,
    REQUEST,
    ROUTER,
    Arrival,
    Form,
    PartialSession,
    checked,
    control_messages,
    extended_error,
    icmp_error,
    stamps,
)

Draw = Callable[[st.SearchStrategy], int]
SIZES = [(16,), (16, 61), (40, 20, 301)]
TYPES = {4: (3, 11, 12), 6: (1, 2, 3, 4)}


def flipped_byte(draw: Draw, session: PartialSession, packet: int) -> Arrival:
    """A byte is changed. The kernel has verified the checksum where it does so, hence only a forger could have changed
    the covered bytes and corrected the sum; the fields must then reveal it."""
    reply = bytearray(session.reply(packet))
    covered = range(len(reply)) if session.form.has_ip_header else [0, 1, *range(4, 22)]
    reply[draw(st.sampled_from(covered))] ^= draw(st.integers(1, 255))
    return session.arrival(bytes(reply), session.host(packet))


def flipped_with_valid_checksum(draw: Draw, session: PartialSession, packet: int) -> Arrival:
    """A byte of the fields is changed, and the checksum corrected."""
    reply = bytearray(session.reply(packet))
    reply[draw(st.sampled_from([0, 1, *range(4, 22)]))] ^= draw(st.integers(1, 255))
    return session.arrival(checked(bytes(reply)), session.host(packet))


def truncated(draw: Draw, session: PartialSession, packet: int) -> Arrival:
    whole = session.answer(packet, options=draw(st.integers(0, 10)))
    return Arrival(whole.data[: draw(st.integers(0, len(whole.data) - 1))], whole.source)


def truncated_with_valid_checksum(draw: Draw, session: PartialSession, packet: int) -> Arrival:
    reply = session.reply(packet)
    return session.arrival(checked(reply[: draw(st.integers(8, len(reply) - 1))]), session.host(packet))


def extended(draw: Draw, session: PartialSession, packet: int) -> Arrival:
    """Longer than the reply, with a valid checksum; often longer than the part of a message that is read."""
    return session.arrival(checked(session.reply(packet) + bytes(draw(st.integers(1, 900)))), session.host(packet))


def from_elsewhere(draw: Draw, session: PartialSession, packet: int) -> Arrival:
    others = [host for host in (*session.hosts, ROUTER[session.family]) if host != session.host(packet)]
    return session.arrival(session.reply(packet), draw(st.sampled_from(others)))


def reply_of_an_earlier_session(draw: Draw, session: PartialSession, packet: int) -> Arrival:
    earlier = PartialSession(session.form, targets=session.targets, sizes=(16, 61), secret=OTHER_SECRET)
    return session.arrival(earlier.reply(packet % earlier.table.total), session.host(packet))


def reply_of_the_other_family(draw: Draw, session: PartialSession, packet: int) -> Arrival:
    other = REPLY[10 - session.family]
    return session.arrival(checked(bytes([other]) + session.reply(packet)[1:]), session.host(packet))


def our_own_request(draw: Draw, session: PartialSession, packet: int) -> Arrival:
    return session.arrival(session.request(packet), session.host(packet))


def reply_with_another_sequence(draw: Draw, session: PartialSession, packet: int) -> Arrival:
    sequence = packet // session.targets + draw(st.integers(1, 0xFFFF))
    return session.arrival(session.reply(packet, sequence=sequence), session.host(packet))


def reply_of_another_size(draw: Draw, session: PartialSession, packet: int) -> Arrival:
    right = len(session.request(packet)) - 8
    size = draw(st.integers(16, int(session.table.packet_bytes.max())).filter(lambda size: size != right))
    return session.arrival(session.reply(packet, size=size), session.host(packet))


def reply_to_an_unsent_packet(draw: Draw, session: PartialSession, packet: int) -> Arrival:
    ahead = st.integers(session.table.next, session.table.next + 2 * session.targets)
    number = draw(st.one_of(ahead, st.integers(session.table.next, 2**32 - 1)))
    return session.arrival(session.reply(number), session.host(number))


def forged_error(draw: Draw, session: PartialSession, packet: int) -> Arrival:
    """An error whose sender knows everything except the secret."""
    earlier = PartialSession(session.form, targets=session.targets, sizes=SIZES[1], count=20, secret=OTHER_SECRET)
    quoted_bytes = draw(st.sampled_from([8, 24, 1000]))
    quoted = session.quoted(packet, earlier.request(packet)[:quoted_bytes])
    return session.arrival(icmp_error(draw(st.sampled_from(TYPES[session.family])), 0, quoted), ROUTER[session.family])


def noise(draw: Draw, session: PartialSession, packet: int) -> Arrival:
    data = draw(st.one_of(st.binary(max_size=200), st.integers(0, 700).map(lambda size: b"\xff" * size)))
    return Arrival(data, session.host(packet), draw(st.binary(max_size=128)))


def noise_behind_any_ip_header(draw: Draw, session: PartialSession, packet: int) -> Arrival:
    first = draw(st.integers(0, 255))
    return Arrival(bytes([first]) + draw(st.binary(max_size=160)), session.host(packet))


HOSTILE = [
    flipped_byte, flipped_with_valid_checksum, truncated, truncated_with_valid_checksum, extended, from_elsewhere,
    reply_of_an_earlier_session, reply_of_the_other_family, our_own_request, reply_with_another_sequence,
    reply_to_an_unsent_packet, forged_error, noise, noise_behind_any_ip_header,
]  # fmt: skip


class Receiving(RuleBasedStateMachine):
    """A ping session with the true replies to its requests."""

    form: Form

    @initialize(hosts=st.integers(1, 5), sizes=st.sampled_from(SIZES), count=st.integers(1, 4))
    def begin(self, hosts: int, sizes: tuple[int, ...], count: int) -> None:
        self.session = PartialSession(self.form, targets=hosts, sizes=sizes, count=count, sent=0)
        self.hostile = [*HOSTILE, *([reply_of_another_size] if max(sizes) > 16 else [])]
        self.answered: Counter[int] = Counter()
        self.first: dict[int, tuple[int, int]] = {}
        self.errors: dict[int, tuple[int, int, int, bytes]] = {}

    @property
    def sent(self) -> list[int]:
        table = self.session.table
        return [packet for packet in range(table.next) if not table.refused_errno[packet]]

    @rule(packets=st.integers(1, 6), refuse_last=st.booleans())
    def send(self, packets: int, refuse_last: bool) -> None:
        before = self.session.table.next
        self.session.send(packets)
        if refuse_last and self.session.table.next > before:
            self.session.refuse([self.session.table.next - 1])

    @rule(elapsed_ns=st.integers(1, 10**9))
    def wait(self, elapsed_ns: int) -> None:
        self.session.now_ns += elapsed_ns

    @precondition(lambda self: self.session.table.next > 0)
    @rule(data=st.data())
    def receive(self, data: st.DataObject) -> None:
        """Deliver a batch of true and hostile messages, mixed."""
        batch = []
        for true in data.draw(st.lists(st.booleans(), min_size=1, max_size=12)):
            batch.append(self._true(data.draw) if true and self.sent else self._hostile(data.draw))
        self.session.deliver(batch)

    def _true(self, draw: Draw) -> Arrival:
        packet, ttl, options = draw(st.sampled_from(self.sent)), draw(st.integers(1, 255)), draw(st.integers(0, 10))
        if self.form.is_raw and draw(st.booleans()):
            return self._error(draw, packet)
        self.answered[packet] += 1
        self.first.setdefault(packet, (self.session.now_ns, ttl))
        option = (0, 2) if self.form.family == 4 else (41, 52)
        controls = control_messages((*option, np.int32(ttl).tobytes()))
        return self.session.answer(packet, ttl=ttl, options=options, control=controls)

    def _error(self, draw: Draw, packet: int) -> Arrival:
        kind = draw(st.sampled_from([icmp_type for icmp_type in TYPES[self.form.family] if icmp_type not in (2, 3)]))
        code = draw(st.integers(0, 255))
        self.errors.setdefault(packet, (kind, code, 0, ROUTER[self.form.family]))
        error = icmp_error(kind, code, self.session.quoted(packet))
        return self.session.arrival(error, ROUTER[self.form.family], options=draw(st.integers(0, 10)))

    def _hostile(self, draw: Draw) -> Arrival:
        table = self.session.table
        refused = [packet for packet in range(table.next) if table.refused_errno[packet]]
        if refused and draw(st.booleans()):
            return self.session.answer(draw(st.sampled_from(refused)))
        return draw(st.sampled_from(self.hostile))(draw, self.session, draw(st.integers(0, table.next - 1)))

    @invariant()
    def only_true_messages_count(self) -> None:
        if not hasattr(self, "session"):
            return
        table = self.session.table
        assert self.session.replies == [self.answered[packet] for packet in range(table.total)]
        for packet, (arrived_ns, ttl) in self.first.items():
            assert (table.arrived_ns[packet], table.hop_limit[packet]) == (arrived_ns, ttl)
        assert self.session.errors == [(packet, *about) for packet, about in sorted(self.errors.items())]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_only_true_replies_and_errors_enter_the_table(form):
    class OfThisForm(Receiving):
        pass

    OfThisForm.form = form
    run_state_machine_as_test(OfThisForm, settings=settings(max_examples=60, stateful_step_count=12, deadline=None))


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.__name__)
def test_each_hostile_message_alone_is_ignored(form, hostile):
    @settings(max_examples=40, deadline=None)
    @given(st.data())
    def is_ignored(data):
        session = PartialSession(form, sizes=(61, 301), count=3, sent=14)
        session.deliver([hostile(data.draw, session, data.draw(st.integers(0, 13)))])
        assert not any(session.replies)
        assert session.errors == []

    is_ignored()


@pytest.mark.parametrize("form", FORMS, ids=str)
@settings(max_examples=200, deadline=None)
@given(
    messages=st.lists(st.tuples(st.binary(max_size=120), st.binary(max_size=256)), min_size=1, max_size=8),
    queued=st.lists(st.tuples(st.binary(max_size=64), st.binary(max_size=256)), min_size=1, max_size=8),
)
def test_random_control_messages_change_nothing(form, messages, queued):
    session = PartialSession(form)

    session.deliver([Arrival(data, session.hosts[0], control) for data, control in messages])
    session.queue([(data, session.hosts[0], control) for data, control in queued])

    assert not any(session.replies)
    assert session.errors == []


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_only_true_errors_enter_from_a_datagram_error_queue(data):
    family = data.draw(st.sampled_from([4, 6]))
    session = PartialSession(Form(family, is_raw=False), sent=8)
    expected: dict[int, tuple[int, int, int, bytes]] = {}
    rows = []
    for forged in data.draw(st.lists(st.booleans(), min_size=1, max_size=8)):
        packet = data.draw(st.integers(0, 7))
        request, host = bytearray(session.request(packet)), session.host(packet)
        origin = {4: 2, 6: 3}[family]
        if forged:
            place = data.draw(st.sampled_from(["fields", "length", "host", "origin", "number"]))
            if place == "fields":
                request[data.draw(st.sampled_from([0, 1, *range(4, 22)]))] ^= data.draw(st.integers(1, 255))
            elif place == "length":
                request = request[: data.draw(st.integers(0, 7))]
            elif place == "host":
                host = ROUTER[family]
            elif place == "origin":
                origin = data.draw(st.sampled_from([0, 1, 4]))
            else:
                request = bytearray(session.request(data.draw(st.integers(8, session.table.total + 5))))
        else:
            expected.setdefault(packet, (REQUEST[family], 9, 0, ROUTER[family]))
        error = extended_error(
            family, code=113, origin=origin, kind=REQUEST[family], icmp_code=9, info=7, offender=ROUTER[family]
        )
        rows.append((bytes(request), host, control_messages(error)))

    session.queue(rows)

    assert session.errors == [(packet, *about) for packet, about in sorted(expected.items())]


@given(st.integers(0, 15), st.binary(max_size=200), st.integers(0, 2**16))
def test_a_length_beyond_the_bytes_read_is_ignored(words, rest, more):
    session = PartialSession(Form(4, is_raw=True))
    whole = bytes([0x40 + words]) + session.answer(0).data[1:]

    session.deliver([Arrival(whole + rest + bytes(session.width + more), session.hosts[0])])

    assert not any(session.replies)


def test_timestamps_of_hostile_messages_are_ignored():
    session = PartialSession(Form(4, is_raw=True))
    forged = session.arrival(
        session.reply(1), session.hosts[0], control=control_messages(stamps(kernel_ns=1, hardware_ns=1))
    )

    session.deliver([forged])

    assert not session.table.arrived_ns.any()
    assert session.table.results(np.arange(3), 1, 0).hardware_stamped.sum() == 0
