"""The two ends of a policer test on loopback addresses: agreement, refusal and strangers."""

import socket
import threading

import pytest

from probes.contract import Deadline, NotPermitted, Outcome, ProbeError
from probes.policer.probe import PolicerProbe, TrainsEnd, measure
from probes.policer.spec import PolicerSpec

SENDER, RECEIVER = "127.79.5.1", "127.79.6.1"
TEST_S = 60.0


@pytest.fixture
def spec():
    with socket.socket() as free:
        free.bind((RECEIVER, 0))
        port = free.getsockname()[1]
    return PolicerSpec(
        address=RECEIVER, source=SENDER, port=port, peak_bps=5_000_000, train_bytes=70_000, one_time_key="a key"
    )


def beside(work, *arguments):
    """Run the other end in a thread, which the caller joins."""
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


def test_trains_arrive_and_are_counted(spec):
    receiver = beside(TrainsEnd().serve, spec, Deadline(TEST_S))
    result = measure(spec, Deadline(TEST_S))
    receiver.join(TEST_S)

    assert not receiver.is_alive()
    assert (result.outcome, result.sent, result.packet_bytes) == (Outcome.MEASURED, 50, 1400)
    assert (result.received, result.sent_bytes) == (50, 70_000)


def test_receiver_that_declines_says_why(spec):
    receiver = beside(TrainsEnd().decline, spec, Outcome.NOT_PERMITTED, "outside its hours", Deadline(TEST_S))
    result = measure(spec, Deadline(TEST_S))
    receiver.join(TEST_S)

    assert result.outcome is Outcome.NOT_PERMITTED
    assert "outside its hours" in result.detail


def test_other_key_is_refused(spec):
    other = PolicerSpec(
        **{name: getattr(spec, name) for name in spec.__struct_fields__} | {"one_time_key": "another key"}
    )
    refused = []

    def serve():
        with pytest.raises(ProbeError) as caught:
            TrainsEnd().serve(spec, Deadline(3.0))
        refused.append(caught.value.outcome)

    receiver = beside(serve)
    assert measure(other, Deadline(TEST_S)).outcome is Outcome.NOT_PERMITTED
    receiver.join(TEST_S)
    assert refused == [Outcome.REFUSED]


def test_nobody_listens(spec):
    assert measure(spec, Deadline(0.5)).outcome is Outcome.REFUSED


def test_test_without_a_key_is_not_permitted(spec):
    without = PolicerSpec(address=spec.address, source=spec.source)
    assert PolicerProbe().can_run(without)
    with pytest.raises(NotPermitted):
        TrainsEnd().serve(without, Deadline(1.0))
