"""When tracks are written: at once what says something else, a level once a minute, a calm one every few minutes."""

import numpy as np

from monitor.present.conditions import Condition
from monitor.present.written import AWAY_S, LEVEL_S, Written, is_longer_than_shown


def written_at(condition, *, is_calm, until_s, changes_at_s=(), fresh_until_s=0.0):
    """The looks, one each ten seconds with a newer burst, at which a track is written."""
    written, looks = Written(1), []
    for now_s in np.arange(0.0, until_s, 10.0).tolist():
        changes = np.array([sum(at_s <= now_s for at_s in changes_at_s)])
        newest_s, calm = np.array([now_s - 5.0]), np.array([is_calm])
        code, fresh = np.array([condition], dtype=np.int8), np.array([now_s < fresh_until_s])
        if len(written.take(code, changes, newest_s, calm, fresh, np.array([0]), now_s)):
            looks.append(now_s)
    return looks


def test_the_level_of_a_trouble_is_told_anew_once_a_minute():
    looks = written_at(Condition.BAD, is_calm=False, until_s=600.0)

    assert looks == np.arange(0.0, 600.0, LEVEL_S).tolist()


def test_the_first_minute_after_an_end_is_told_burst_by_burst():
    """The segment begins without packets: those of an outage count no more."""
    looks = written_at(Condition.NORMAL, is_calm=False, until_s=200.0, fresh_until_s=60.0)

    assert looks == [*np.arange(0.0, 70.0, 10.0).tolist(), 120.0, 180.0]


def test_a_change_is_told_at_once_and_with_it_the_level():
    looks = written_at(Condition.BAD, is_calm=False, until_s=200.0, changes_at_s=(80.0, 90.0))

    assert looks == [0.0, 60.0, 80.0, 90.0, 120.0, 180.0]


def test_a_calm_track_is_written_within_the_time_after_which_a_process_begins_anew():
    looks = written_at(Condition.NORMAL, is_calm=True, until_s=2000.0)

    assert len(looks) > 1
    assert max(np.diff(looks)) <= AWAY_S
    assert min(np.diff(looks)) >= AWAY_S / 2.0


def test_an_overdue_track_is_written_with_each_newer_burst():
    """Pages name the time of its newest burst, and late bursts arrive while it is overdue."""
    assert written_at(Condition.OVERDUE, is_calm=False, until_s=60.0) == np.arange(0.0, 60.0, 10.0).tolist()


def test_a_level_that_the_cells_show_is_no_calm_one():
    """A page shows ten minutes or three cycles: where the level is older, it shows its own counts."""
    is_older = is_longer_than_shown(np.array([-590.0, -610.0, -610.0]), np.array([10.0, 10.0, 300.0]), 0.0)

    assert is_older.tolist() == [False, True, False]
