import numpy as np

from probes.packets.icmp.clock import StampClock

MS = 1_000_000
WALL = 1_700_000_000_000 * MS


def clock_reading(*readings: tuple[int, int]) -> StampClock:
    upcoming = iter(readings)
    return StampClock(lambda: next(upcoming))


def to_monotonic(clock: StampClock, stamp_ns: int, *, after_ns: int, before_ns: int) -> tuple[int, bool]:
    times_ns, trusted = clock.to_monotonic(np.array([stamp_ns]), np.array([after_ns]), before_ns)
    return int(times_ns[0]), bool(trusted[0])


def test_a_stamp_becomes_monotonic_by_the_clocks_difference():
    clock = clock_reading((0, WALL), (100 * MS, WALL + 40))  # 40 ns: the noise of reading two clocks
    clock.observe()

    assert to_monotonic(clock, WALL + 50 * MS, after_ns=49 * MS, before_ns=100 * MS) == (50 * MS, True)


def test_a_stamp_before_a_clock_step_uses_the_old_difference():
    for step in (-3600_000 * MS, 3600_000 * MS):
        clock = clock_reading((0, WALL), (100 * MS, WALL + step))
        clock.observe()

        before = to_monotonic(clock, WALL + 50 * MS, after_ns=49 * MS, before_ns=100 * MS)
        after = to_monotonic(clock, WALL + step + 60 * MS, after_ns=49 * MS, before_ns=100 * MS)

        assert (before, after) == ((50 * MS, True), (60 * MS, True))


def test_a_stamp_that_fits_both_differences_is_not_trusted():
    clock = clock_reading((0, WALL), (100 * MS, WALL + 10 * MS))
    clock.observe()

    at_the_latest_ns, trusted = to_monotonic(clock, WALL + 50 * MS, after_ns=20 * MS, before_ns=100 * MS)

    assert (at_the_latest_ns, trusted) == (50 * MS, False)  # 40 ms if the timestamp was taken after the step


def test_after_the_step_the_old_difference_is_forgotten():
    clock = clock_reading((0, WALL), (100 * MS, WALL + 10 * MS), (200 * MS, WALL + 10 * MS))
    clock.observe()
    clock.observe()

    assert to_monotonic(clock, WALL + 150 * MS, after_ns=20 * MS, before_ns=200 * MS) == (140 * MS, True)


def test_a_stamp_missing_or_before_its_call_is_not_trusted():
    clock = clock_reading((0, WALL), (100 * MS, WALL))
    clock.observe()

    assert not to_monotonic(clock, 0, after_ns=0, before_ns=100 * MS)[1]
    assert not to_monotonic(clock, WALL + 10 * MS, after_ns=20 * MS, before_ns=100 * MS)[1]


def test_without_a_trusted_stamp_arrival_is_at_latest_the_read():
    clock = clock_reading((0, WALL), (100 * MS, WALL))
    clock.observe()

    for stamp_ns in (0, WALL + 10 * MS, WALL + 200 * MS):
        assert to_monotonic(clock, stamp_ns, after_ns=20 * MS, before_ns=100 * MS) == (100 * MS, False)
