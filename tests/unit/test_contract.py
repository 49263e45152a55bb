from datetime import UTC, datetime

import msgspec

from probes.contract import Deadline, NameNotResolved, Outcome
from probes.packets.spec import Burst
from probes.site.wire import Delivered


def test_the_remaining_time_of_a_deadline_is_never_negative():
    deadline = Deadline(-1.0)

    assert deadline.passed
    assert deadline.remaining_s == 0.0


def test_an_error_has_the_outcome_of_its_kind():
    assert NameNotResolved("no such name").outcome is Outcome.DNS_FAILURE


def test_a_lost_packet_stays_null_on_the_wire():
    burst = Burst(
        target="cern",
        address="192.0.2.1",
        family=4,
        packet_bytes=100,
        started_at=datetime(2026, 11, 21, tzinfo=UTC),
        outcome=Outcome.MEASURED,
        sent=2,
        received=1,
        rtts_ms=(1.5, None),
        stamp="kernel",
    )
    sent = Delivered(sequence=1, path_id=2, test="pinger", result=burst)

    arrived = msgspec.json.decode(msgspec.json.encode(sent), type=Delivered)

    assert arrived == sent
    assert b'"rtts_ms":[1.5,null]' in msgspec.json.encode(sent)
