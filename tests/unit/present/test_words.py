"""The words of each condition have the place, the level, the begin and the end of the tracks that they are of."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from monitor.analysis.changes.present import LostPackets
from monitor.analysis.segments.delay_segments import LONGER, USUAL, DelaySegment
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.segment import Moment
from monitor.analysis.segments.stretches import CLEAN, DEAD, LOSSY
from monitor.present.conditions import Condition
from monitor.present.read import PresentPath
from monitor.present.track import Signal, Track
from monitor.present.words import OTHER, clause, past

AT = datetime(2026, 11, 28, 14, 0, tzinfo=UTC)


def since(minute, second=0, width_s=0.0):
    at_s = datetime(2026, 11, 28, 13, minute, second, tzinfo=UTC).timestamp()
    return Moment(at_s, at_s - width_s, at_s + width_s)


def lossy(state, moment, sent, lost):
    return LossSegment(state, moment, LostPackets(sent, lost))


CLEAN_BEFORE = lossy(CLEAN, Moment(0.0, -math.inf, 0.0), 1000, 0)


def of_loss(condition, *segments, path_id=1, packet_bytes=0, outages=()):
    track = Track(path_id, Signal.LOSS, "", packet_bytes, condition, 0.0, (CLEAN_BEFORE, *segments), outages)
    return PresentPath(path_id, condition, (track,))


def of_rtt(condition, *segments):
    calm = Track(1, Signal.LOSS, "", 0, Condition.NORMAL, 0.0, (CLEAN_BEFORE,))
    return PresentPath(1, condition, (calm, Track(1, Signal.RTT, "", 0, condition, 0.0, segments)))


def delay(state, moment, median_ms, worst_ms=None):
    return DelaySegment(state, moment, median_ms, median_ms, median_ms, worst_ms or median_ms)


def test_a_loss_is_told_with_its_level_and_begin():
    path = of_loss(Condition.BAD, lossy(LOSSY, since(34, 2), 20_000, 600))

    assert clause("ornl → slac", [path], at=AT) == "ornl → slac loses 3% since 13:34:02 UTC"


def test_a_loss_of_few_packets_is_told_as_about():
    path = of_loss(Condition.SUSPECT, lossy(LOSSY, since(34, 2), 40, 8))

    assert "loses about 20% since" in clause("ornl → slac", [path], at=AT)


@pytest.mark.parametrize("lower", [Condition.BAD, Condition.SUSPECT])
def test_the_loss_of_a_pair_is_that_of_the_packets_of_both(lower):
    paths = [
        of_loss(condition, lossy(LOSSY, since(34, 2), 10_000, lost), path_id=lost)
        for condition, lost in ((lower, 200), (Condition.BAD, 400))
    ]

    assert "loses 3% since" in clause("ornl ↔ slac", paths, at=AT)


def test_a_loss_of_one_size_is_told_with_the_size_until_it_is_past():
    loss = replace(lossy(LOSSY, since(34, 2), 5000, 5000), packet_bytes=1000)
    over = of_loss(Condition.NORMAL, loss, lossy(CLEAN, since(50), 90, 0))

    assert (
        clause("a → b", [of_loss(Condition.BAD, loss)], at=AT)
        == "a → b loses 100% of packets of 1,000 bytes since 13:34:02 UTC"
    )
    assert (
        clause("a → b", [over], at=AT)
        == "a → b: no more loss since 13:50:00 UTC; 100% of packets of 1,000 bytes from 13:34:02 UTC"
    )
    assert past("a → b", [over]) == "a → b lost 100% of packets of 1,000 bytes"


def test_a_path_that_flapped_is_told_as_of_its_newest_burst():
    dead, clean = lossy(DEAD, since(40), 20, 20), lossy(CLEAN, since(41), 10, 0)
    outages = tuple((since(minute).at_s, since(minute + 1).at_s) for minute in (34, 37, 40))
    track = replace(of_loss(Condition.OVERDUE, dead, clean, outages=outages).tracks[0], newest_s=since(42).at_s)

    assert (
        clause("a ↔ b", [PresentPath(1, Condition.OVERDUE, (track,))], at=AT)
        == "a ↔ b flapped: 3 outages as of 13:42:00 UTC"
    )


def test_paths_of_a_site_are_counted():
    paths = [of_loss(Condition.DEAD, lossy(DEAD, since(21, 2, number), 90, 90), path_id=number) for number in range(6)]

    assert clause("in2p3", paths, 8, at=AT) == "in2p3: 6 of 8 paths dead since 13:21:02 UTC"
    assert clause("in2p3 ↔ cern", paths[:2], at=AT) == "in2p3 ↔ cern dead since 13:21:02 UTC"


def test_an_outage_after_a_loss_has_its_own_begin():
    loss, dead = lossy(LOSSY, since(10), 1000, 100), lossy(DEAD, since(21, 2), 90, 90)
    now, over = (
        of_loss(Condition.DEAD, loss, dead),
        of_loss(Condition.NORMAL, loss, dead, lossy(CLEAN, since(26), 9, 0)),
    )

    assert clause("a → b", [now], at=AT) == "a → b dead since 13:21:02 UTC"
    assert clause("a → b", [over], at=AT) == "a → b answers again since 13:26:00 UTC; dead from 13:21:02 UTC"


def test_a_path_that_flaps_is_told_with_its_outages():
    begin_s = since(42, 26).at_s
    outages = tuple((begin_s + 40.0 * number, begin_s + 40.0 * number + 22.0) for number in range(3))
    path = of_loss(Condition.FLAPS, lossy(DEAD, since(44, 26), 10, 10), outages=outages)

    assert (
        clause("cern ↔ ornl", [path], at=AT)
        == "cern ↔ ornl flaps: 4 outages of about 20 s since 13:42:26 UTC, dead now"
    )


def test_a_longer_rtt_is_told_beside_the_usual():
    path = of_rtt(Condition.BAD, delay(USUAL, since(0), 102.4), delay(LONGER, since(30, 2), 162.4))

    assert clause("ornl → nersc", [path], at=AT) == "ornl → nersc: RTT 162 ms since 13:30:02 UTC (was 102 ms)"


@pytest.mark.parametrize("signal", [Signal.RATE, Signal.RESPONSE, Signal.OTHER, Signal.JITTER])
def test_a_finding_of_another_signal_is_named(signal):
    calm = Track(1, Signal.LOSS, "", 0, Condition.NORMAL, 0.0, (CLEAN_BEFORE,))
    path = PresentPath(1, Condition.BAD, (calm, Track(1, signal, "", 0, Condition.BAD, 0.0, ())))

    assert clause("a ↔ b", [path], at=AT) == f"a ↔ b: {OTHER[signal]}"


def test_what_is_over_is_told_with_its_end_and_its_worst():
    usual, longer = delay(USUAL, since(0), 102.4), delay(LONGER, since(30), 150.0, worst_ms=162.4)
    rtt = of_rtt(Condition.NORMAL, usual, longer, delay(USUAL, since(36, 2), 102.0))
    loss = of_loss(Condition.NORMAL, lossy(LOSSY, since(34), 20_000, 600), lossy(CLEAN, since(50, 15), 500, 0))
    dead = of_loss(Condition.NORMAL, lossy(DEAD, since(21, 2), 500, 500), lossy(CLEAN, since(26, 2), 500, 0))

    assert clause("a → b", [rtt], at=AT) == (
        "a → b: RTT normal again (102 ms) since 13:36:02 UTC; 162 ms from 13:30:00 UTC"
    )
    assert clause("a → b", [loss], at=AT) == "a → b: no more loss since 13:50:15 UTC; 3% from 13:34:00 UTC"
    assert clause("a → b", [dead], at=AT) == "a → b answers again since 13:26:02 UTC; dead from 13:21:02 UTC"


def test_the_worst_loss_of_a_pair_is_that_of_the_packets_of_both():
    paths = [
        of_loss(Condition.NORMAL, lossy(LOSSY, since(34), 10_000, lost), lossy(CLEAN, since(50), 500, 0), path_id=lost)
        for lost in (200, 400)
    ]

    assert "; 3% from 13:34:00" in clause("a ↔ b", paths, at=AT)
    assert past("a ↔ b", paths) == "a ↔ b lost 3%"


def test_the_day_is_told_where_it_is_another():
    path = of_loss(Condition.DEAD, lossy(DEAD, since(21, 2), 90, 90))

    assert clause("a → b", [path], at=datetime(2026, 11, 30, tzinfo=UTC)) == "a → b dead since 2026-11-28 13:21 UTC"


def test_the_gravest_trouble_of_several_paths_is_told():
    bad = of_loss(Condition.BAD, lossy(LOSSY, since(34, 2), 1000, 30), path_id=1)
    dead = of_loss(Condition.DEAD, lossy(DEAD, since(40), 90, 90), path_id=2)

    assert clause("in2p3", [bad, dead], 8, at=AT) == "in2p3: 1 of 8 paths dead since 13:40:00 UTC"


def test_a_loss_that_was_told_wrongly_moves_no_end():
    """Two clean segments in a row: the second began where a loss was told that is not there any more."""
    dead, clean = lossy(DEAD, since(42, 6), 90, 90), [lossy(CLEAN, since(minute, 8), 500, 0) for minute in (46, 53)]
    path = of_loss(Condition.NORMAL, dead, *clean)

    assert clause("a → b", [path], at=AT) == "a → b answers again since 13:46:08 UTC; dead from 13:42:06 UTC"
    assert of_loss(Condition.NORMAL, clean[0]).tracks[0].end is None
