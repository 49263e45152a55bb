"""Replies that carry the secret of a request and do not count: they are kept, with their sender and the reason."""

import numpy as np
import pytest

from probes.bounds import MAX_ICMP_ERRORS
from probes.packets.burst_counts import BurstCounts
from probes.packets.spec import ALTERED, OTHER_ADDRESS
from tests.unit.ping_wire import CLOCK_OFFSET_NS, FORMS, ROUTER, SECOND, Form, PartialSession, checked


def burst_of(form: Form, packets: int = 3) -> PartialSession:
    session = PartialSession(form, targets=1, sizes=(40,), count=packets)
    session.now_ns = 2 * SECOND
    return session


def counts_of(session: PartialSession) -> BurstCounts:
    results = session.table.results(np.arange(session.targets), 2 * SECOND, CLOCK_OFFSET_NS)
    return BurstCounts(results, 1, session.family)


def errors_of(session: PartialSession) -> list[tuple[str, int]]:
    return [(error.name, error.count) for error in counts_of(session).errors(0, 0)]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_reply_from_another_address_is_told(form):
    session = burst_of(form)

    session.deliver([session.arrival(session.reply(packet), ROUTER[form.family]) for packet in (0, 0, 1)])

    (error,) = counts_of(session).errors(0, 0)
    assert (error.name, error.count) == (OTHER_ADDRESS, 2)
    assert "198.51.100.1" in error.text or "2001:db8:1::1" in error.text
    assert session.replies == [0, 0, 0]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_shortened_reply_is_told(form):
    session = burst_of(form)

    session.deliver([session.arrival(checked(session.reply(0)[:-4]), session.host(0))])

    assert errors_of(session) == [(ALTERED, 1)]


def test_the_true_reply_counts_after_one_from_elsewhere():
    session = burst_of(FORMS[0], packets=1)

    session.deliver([session.arrival(session.reply(0), ROUTER[4])])

    assert session.table.has_pending()
    session.deliver([session.answer(0)])
    assert session.replies == [1]
    assert errors_of(session) == []


def test_replies_of_many_addresses_are_bounded():
    session = burst_of(FORMS[0], packets=3 * MAX_ICMP_ERRORS)

    session.deliver([session.arrival(session.reply(n), bytes([198, 51, 100, n])) for n in range(3 * MAX_ICMP_ERRORS)])

    assert len(errors_of(session)) == MAX_ICMP_ERRORS
