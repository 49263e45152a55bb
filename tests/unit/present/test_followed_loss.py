"""Tracks of loss: the same however bursts arrive, in pieces, of several paths and sizes, or anew after a late one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.analysis.segments.chain_sums import sums_in_order
from monitor.analysis.segments.loss_filter import LossFilter
from monitor.analysis.segments.stretches import CLEAN, DEAD, LOSSY
from monitor.archive.queries.present.lost_order import COUNTS, OWN_TEST, LostOrder
from monitor.present.followed_loss import ALL_SIZES, FollowedLoss, Pings

EVERY_S, SPACING_S, PACKETS = 60.0, 1.0, 10
ONE_SIZE = Pings(EVERY_S, SPACING_S, (100,))
TWO_SIZES = Pings(EVERY_S, SPACING_S, (100, 1000))
EVEN = Pings(10.0, 1.0, (100,))


def bursts(*rows):
    """Bursts of (path, size, begin, packets), in the order of the archive."""
    rows = sorted(rows, key=lambda row: row[:3])
    lost = [np.array(packets, dtype=bool) for *_, packets in rows]
    return LostOrder(
        path_id=np.array([float(path) for path, *_ in rows]),
        packet_bytes=np.array([float(size) for _, size, *_ in rows]),
        at_s=np.array([float(at_s) for _, _, at_s, _ in rows]),
        sent=np.array([float(len(packets)) for packets in lost]),
        received=np.array([float((~packets).sum()) for packets in lost]),
        result=np.zeros(len(rows)),
        loaded_sent=np.zeros(len(rows)),
        loaded_received=np.zeros(len(rows)),
        sums=np.stack([sums_in_order(packets) for packets in lost], axis=1) if rows else np.zeros((4, 0)),
        first_reply=np.array([np.nan if packets.all() else packets.argmin() for packets in lost], dtype=float),
        last_reply=np.array([np.nan if packets.all() else np.flatnonzero(~packets)[-1] for packets in lost]),
    )


def planted(seed, pings, count=60, path=1):
    """Bursts of a path that loses a quarter of its packets from the middle on; sizes follow each other."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        for place, size in enumerate(pings.packet_bytes):
            lost = rng.random(PACKETS) < (0.001 if number < count // 2 else 0.25)
            yield path, size, number * pings.every_s + 15.0 * place, lost


def state_of(followed, path, size=ALL_SIZES):
    row = np.array([followed.tracks[path, size]])
    of = followed.segments.filter
    of.settle(row)
    return followed.newest_s[row].tolist(), of.levels()[row[0]], of.above(0.01)[row[0]]


@given(cuts=st.lists(st.integers(1, 119), max_size=6), seed=st.integers(0, 50))
def test_bursts_in_pieces_give_the_same_tracks(cuts, seed):
    rows = sorted(planted(seed, TWO_SIZES), key=lambda row: row[2])
    whole, parts = FollowedLoss({1: TWO_SIZES}), FollowedLoss({1: TWO_SIZES})
    whole.follow(bursts(*rows))
    for first, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(rows)], strict=True):
        parts.follow(bursts(*rows[first:end]))

    for size in (ALL_SIZES, 100, 1000):
        assert state_of(parts, 1, size) == state_of(whole, 1, size)


@pytest.mark.parametrize("pings", [ONE_SIZE, EVEN])
def test_a_track_is_that_of_the_filter_of_its_packets(pings):
    rows = list(planted(3, pings))
    followed, alone = FollowedLoss({1: pings}), LossFilter(1)
    followed.follow(bursts(*rows))

    before = False
    for number, (_, _, at_s, lost) in enumerate(rows):
        was_lost = before and pings is EVEN  # a pause of 51 s ends the chain
        alone.take(np.array([0]), at_s, pings.every_s * (number > 0), sums_in_order([lost], [was_lost]))
        before = bool(lost[-1])
    alone.settle(np.array([0]))

    assert state_of(followed, 1)[1:] == (alone.levels()[0], alone.above(0.01)[0])


def test_paths_are_followed_apart():
    together, alone = FollowedLoss({1: ONE_SIZE, 2: EVEN}), FollowedLoss({2: EVEN})
    of_second = list(planted(5, EVEN, path=2))
    together.follow(bursts(*planted(4, ONE_SIZE), *of_second))
    alone.follow(bursts(*of_second))

    assert state_of(together, 2) == state_of(alone, 2)


def test_a_late_burst_takes_none_of_its_path():
    rows = list(planted(6, ONE_SIZE))
    followed = FollowedLoss({1: ONE_SIZE, 2: ONE_SIZE})
    followed.follow(bursts(*rows[:20], *rows[21:40]))
    before = state_of(followed, 1)
    other = next(planted(7, ONE_SIZE, path=2))

    assert followed.follow(bursts(rows[20], *rows[40:], other)) == {1}
    assert state_of(followed, 1) == before
    assert state_of(followed, 2)[0] == [0.0]


def test_bursts_read_once_more_are_known():
    rows = list(planted(6, ONE_SIZE))
    followed, whole = FollowedLoss({1: ONE_SIZE}), FollowedLoss({1: ONE_SIZE})
    for number in range(len(rows)):
        assert followed.follow(bursts(*rows[max(0, number - 5) : number + 1])) == set()
    whole.follow(bursts(*rows))

    assert state_of(followed, 1) == state_of(whole, 1)


def test_a_path_followed_anew_has_the_track_of_all_its_bursts():
    rows = list(planted(8, TWO_SIZES))
    followed, whole = FollowedLoss({1: TWO_SIZES}), FollowedLoss({1: TWO_SIZES})
    followed.follow(bursts(*rows[:50], *rows[52:90]))
    followed.forget([1])
    followed.follow(bursts(*rows))
    whole.follow(bursts(*rows))

    for size in (ALL_SIZES, 100, 1000):
        assert state_of(followed, 1, size) == state_of(whole, 1, size)


def test_after_a_gap_a_track_begins_anew():
    rows = list(planted(9, ONE_SIZE))
    later = [(path, size, at_s + 7200.0, lost) for path, size, at_s, lost in rows]
    followed, fresh = FollowedLoss({1: ONE_SIZE}), FollowedLoss({1: ONE_SIZE})
    followed.follow(bursts(*rows))
    followed.follow(bursts(*later[:5]))
    fresh.follow(bursts(*later[:5]))

    assert state_of(followed, 1) == state_of(fresh, 1)
    assert followed.since_s[0] == 7200.0


def test_the_bursts_before_a_loss_taken_at_once_tell_the_same():
    calm = [(1, size, at_s, np.zeros(PACKETS, dtype=bool)) for _, size, at_s, _ in planted(9, TWO_SIZES)]
    lossy = list(planted(10, ONE_SIZE, path=2))
    at_once, alone = (FollowedLoss({1: TWO_SIZES, 2: ONE_SIZE}) for _ in range(2))
    at_once.follow(bursts(*calm, *lossy), at_once=True)
    alone.follow(bursts(*calm, *lossy))

    for path, size in ((2, ALL_SIZES), (1, ALL_SIZES), (1, 100), (1, 1000)):
        of_both = [state_of(of, path, size) for of in (at_once, alone)]
        (newest_s, level, above), (as_newest_s, as_level, as_above) = of_both
        assert (newest_s, level.sent, level.lost) == (as_newest_s, as_level.sent, as_level.lost)
        assert above == pytest.approx(as_above, abs=0.01)
        told, as_told = (
            [(of.state, of.since.at_s, of.lost) for of in followed.segments.segments(followed.tracks[path, size])]
            for followed in (at_once, alone)
        )
        assert told == as_told
        assert len(told) == (2 if path == 2 else 1)


def test_a_loss_of_large_packets_is_over_soon_after_its_end():
    """In the track of all sizes: all packets of 1,000 bytes are lost for four minutes, none of 100 bytes."""
    pings = Pings(10.0, 1.0, (100, 1000))
    followed, row = FollowedLoss({1: pings}), 0
    lossy = []
    for number in range(120):
        is_lost = 60 <= number < 84
        followed.follow(
            bursts(
                *((1, size, 10.0 * number + 0.5 * place, np.full(PACKETS, is_lost and size == 1000))
                  for place, size in enumerate(pings.packet_bytes))
            )
        )  # fmt: skip
        lossy.append(int(followed.segments.states[row]) == LOSSY)

    assert lossy[:60] == [False] * 60
    assert lossy[66:84] == [True] * 18
    assert lossy[88:] == [False] * 32
    assert [of.state for of in followed.segments.segments(row)] == [CLEAN, LOSSY, CLEAN]


@pytest.mark.parametrize(
    ("lost", "own", "outages"),
    [
        ((300.0, 310.0, 320.0), (), [(299.0, 330.0)]),
        ((300.0,), (310.0, 320.0), []),
        ((300.0, 330.0, 340.0), (310.0, 320.0), [(299.0, 350.0)]),
        ((300.0, 310.0, 340.0), (320.0, 330.0), [(299.0, 350.0)]),
    ],
)
def test_a_silence_over_own_tests_is_no_outage(lost, own, outages):
    """Bursts each 10 s: these are lost as a whole, and those sent during own tests."""
    followed = FollowedLoss({1: EVEN})
    for number in range(60):
        at_s = 10.0 * number
        burst = bursts((1, 100, at_s, np.full(PACKETS, at_s in lost or at_s in own)))
        followed.follow(replace(burst, result=np.full(1, OWN_TEST if at_s in own else COUNTS)))

    assert list(followed.segments.outages.get(0, ())) == outages


def test_other_paths_and_sizes_are_left_out():
    followed = FollowedLoss({1: ONE_SIZE})

    assert followed.follow(bursts((1, 64, 0.0, [False]), (7, 100, 0.0, [False]))) == set()
    assert followed.newest_s.tolist() == [-np.inf]


def test_nothing_changes_nothing():
    followed = FollowedLoss({})

    assert followed.follow(bursts()) == set()


@pytest.mark.parametrize("lasts_s", [18.0, 21.0])
@pytest.mark.parametrize("seed", range(6))
def test_outages_are_no_loss_at_their_begin(seed, lasts_s):
    """After an outage of three minutes a path flaps, and each look is in the midst of bursts of two sizes."""
    rng = np.random.default_rng(seed)
    phase_s, between_s, begins_s = rng.uniform(0.0, 10.0), rng.uniform(0.5, 9.5), rng.uniform(0.0, 10.0) + 1300.0
    outages_s = [(600.0, 780.0), *((begin, begin + lasts_s) for begin in begins_s + 40.2 * np.arange(3))]
    followed = FollowedLoss({1: Pings(10.0, 2.0, (100, 1000), 5)})
    rows = []
    for at_s in np.arange(phase_s, 1460.0, 10.0).tolist():
        for size, begin_s in ((100, at_s), (1000, at_s + between_s)):
            sent_s = begin_s + 2.0 * np.arange(5)
            rows.append((1, size, begin_s, np.array([any(a <= at < b for a, b in outages_s) for at in sent_s])))
    told = set()
    for now_s in np.arange(rng.uniform(0.0, 10.0), 1500.0, 10.0):
        arrived = [row for row in rows if now_s - 10.0 <= row[2] + 12.0 < now_s]
        followed.follow(bursts(*arrived))
        told |= {segment.state for segment in followed.segments.segments(followed.tracks[1, ALL_SIZES])}

    assert told == {CLEAN, DEAD}
