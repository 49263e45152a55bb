"""The result of a STAMP measurement: intervals of delays, and the burst of a path without pings."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from probes.contract import Outcome
from probes.stamp.kind import KIND
from probes.stamp.spec import AnsweredPeer, StampBurst, StampDirection, StampSpec, StampTarget, StampTask

BURST = StampBurst(
    target="far.example",
    address="192.0.2.9",
    family=4,
    packet_bytes=100,
    started_at=datetime(2026, 11, 1, tzinfo=UTC),
    outcome=Outcome.MEASURED,
    sent=3,
    received=2,
    rtts_ms=(10.0, None, 12.0),
    forward=StampDirection(lost=1, median_ms=1004.0),
    reverse=StampDirection(lost=0, median_ms=-993.0, ttl=61),
    offset_lo_ms=998.0,
    offset_hi_ms=1003.0,
)


def test_intervals_contain_the_planted_delay() -> None:
    # Planted: the reflector's clock is 1,000 ms ahead, 4 ms forward and 7 ms reverse.
    forward = BURST.delay_interval_ms("forward", BURST.forward.median_ms)
    reverse = BURST.delay_interval_ms("reverse", BURST.reverse.median_ms)

    assert forward == (1.0, 6.0)
    assert reverse == (5.0, 10.0)


def test_no_interval_begins_below_zero() -> None:
    assert BURST.delay_interval_ms("forward", 1003.0 - 1e-9) == (0.0, pytest.approx(5.0))


def test_no_interval_without_timestamps_of_the_reflector() -> None:
    blind = msgspec.structs.replace(BURST, offset_lo_ms=None, offset_hi_ms=None)

    assert blind.delay_interval_ms("forward", 1004.0) is None
    assert BURST.delay_interval_ms("forward", None) is None


def test_the_burst_of_the_path_has_the_round_trips() -> None:
    burst = BURST.path_burst

    assert (burst.sent, burst.received, burst.rtts_ms, burst.ttl) == (3, 2, (10.0, None, 12.0), 61)
    assert burst.packet_bytes == 100


@pytest.mark.parametrize("key", ["short", "not base64 at all, but long enough"])
def test_a_key_is_base64_of_16_bytes_at_least(key: str) -> None:
    for struct in (StampTarget, AnsweredPeer):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"address": "192.0.2.1", "key": key}, struct)


def test_a_burst_survives_its_way_to_the_centre() -> None:
    assert msgspec.json.decode(msgspec.json.encode(BURST), type=StampBurst) == BURST


@pytest.mark.parametrize(("every_s", "spacing_s", "overlaps"), [(10, 0.5, True), (60, 1.0, False), (20, 1.0, True)])
def test_a_cycle_may_begin_before_the_last_is_closed(every_s, spacing_s, overlaps) -> None:
    """Else the cycle after one with a loss at its end would be busy, within 21 s with a timeout of 2 s."""
    task = StampTask(test="oneway", every_s=every_s, spec=StampSpec(targets=(), count=10, spacing_s=spacing_s))

    assert KIND.overlaps(task) == overlaps
