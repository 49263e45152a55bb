"""The offset of a site's clock, measured by simulated requests between two clocks whose offset is known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.site.delivery.centre_clock import CLOCK_OFF_S, DRIFT, EXCHANGES_KEPT, CentreClock

CENTRE_EPOCH_S = 1_763_740_800.0


class World:
    """A site and a centre with a common true time; the site's wall clock is `ahead_s` ahead of the centre's."""

    def __init__(self, ahead_s=0.0):
        self.true_s = 5000.0
        self.ahead_s = ahead_s
        self.clock = CentreClock(
            wall_s=lambda: CENTRE_EPOCH_S + self.true_s + self.ahead_s, steady_s=lambda: self.true_s
        )

    def request(self, there_s=0.01, at_centre_s=0.0, back_s=0.01):
        sent_s = self.clock.now_s()
        self.true_s += there_s
        received = f"{CENTRE_EPOCH_S + self.true_s:.6f}"
        self.true_s += at_centre_s
        answered = f"{CENTRE_EPOCH_S + self.true_s:.6f}"
        self.true_s += back_s
        self.clock.note(sent_s, received, answered, self.clock.now_s())


def test_before_the_first_answer_the_offset_is_unknown():
    world = World(ahead_s=90.0)

    assert world.clock.offset() is None
    assert world.clock.off_s() is None


@pytest.mark.parametrize("ahead_s", [-86_400.0, -3.0, 0.0, 0.4, 90.0])
def test_a_symmetric_exchange_gives_the_offset_at_any_delay(ahead_s):
    world = World(ahead_s)

    world.request(there_s=0.15, at_centre_s=2.5, back_s=0.15)

    assert world.clock.offset().seconds == pytest.approx(ahead_s, abs=1e-5)
    assert world.clock.offset().uncertainty_s == pytest.approx(0.15, abs=2e-5)


delays = st.floats(0.0, 30.0)


@given(ahead_s=st.floats(-1e6, 1e6), exchanges=st.lists(st.tuples(delays, delays, delays), min_size=1, max_size=20))
def test_the_true_offset_is_within_the_uncertainty(ahead_s, exchanges):
    world = World(ahead_s)

    for exchange in exchanges:
        world.request(*exchange)

    offset = world.clock.offset()
    assert abs(offset.seconds - ahead_s) <= offset.uncertainty_s + 1e-5  # timestamps are written in microseconds


def test_the_fastest_of_the_newest_exchanges_is_used():
    world = World(ahead_s=0.2)
    world.request(there_s=0.001, back_s=0.001)
    for _ in range(EXCHANGES_KEPT - 1):
        world.request(there_s=4.0, back_s=0.0)
    assert world.clock.offset().seconds == pytest.approx(0.2, abs=1e-3)

    world.request(there_s=4.0, back_s=0.0)

    assert world.clock.offset().seconds == pytest.approx(0.2 - 2.0, abs=1e-3)


def test_a_clock_step_is_detected_at_once_without_the_centre():
    world = World()
    world.request()

    world.ahead_s = 7.0

    assert world.clock.off_s() == pytest.approx(7.0, abs=1e-3)


def test_uncertainty_grows_while_the_centre_is_unreachable():
    world = World()
    world.request()
    fresh_s = world.clock.offset().uncertainty_s

    world.true_s += 86_400.0

    assert world.clock.offset().uncertainty_s - fresh_s == pytest.approx(86_400.0 * DRIFT)


def test_a_clock_is_off_only_if_the_offset_is_significant():
    just_right, surely_off, unsure = World(CLOCK_OFF_S - 0.1), World(-CLOCK_OFF_S - 0.1), World(CLOCK_OFF_S + 0.1)
    just_right.request()
    surely_off.request()
    unsure.request(there_s=0.5, back_s=0.5)

    assert just_right.clock.off_s() is None
    assert surely_off.clock.off_s() == pytest.approx(-1.1, abs=1e-3)
    assert unsure.clock.off_s() is None


@pytest.mark.parametrize(
    ("received", "answered"),
    [
        (None, None),
        ("1763740800.0", None),
        ("soon", "later"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("1763740800.0", "1763740900.0"),  # longer at the centre than the whole exchange took
    ],
)
def test_an_answer_with_impossible_timestamps_is_ignored(received, answered):
    world = World()

    world.clock.note(5000.0, received, answered, 5000.1)

    assert world.clock.offset() is None


@pytest.mark.parametrize("ahead_s", [-3600.0, 0.3, 3600.0])
def test_the_centres_time_is_used_where_the_clock_is_off(ahead_s):
    world = World(ahead_s)
    before = world.clock.utc_now().timestamp()
    world.request()

    after = world.clock.utc_now().timestamp()

    assert before == pytest.approx(CENTRE_EPOCH_S + 5000.0 + ahead_s, abs=1e-3)
    off_s = ahead_s if abs(ahead_s) < CLOCK_OFF_S else 0.0
    assert after == pytest.approx(CENTRE_EPOCH_S + world.true_s + off_s, abs=1e-3)
