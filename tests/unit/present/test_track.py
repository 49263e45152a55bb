"""What a track tells of its segments."""

import numpy as np
import pytest

from monitor.analysis.changes.present import LostPackets
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.segment import Moment
from monitor.analysis.segments.stretches import CLEAN, DEAD, LOSSY
from monitor.present.conditions import Condition, TrackFacts, conditions
from monitor.present.loss_tracks import as_told
from monitor.present.track import Signal, Track, newest_of


def track(*states):
    """A track with these segments, one every 100 s."""
    segments = [
        LossSegment(
            state, Moment(100.0 * number, 100.0 * number, 100.0 * number), LostPackets(10.0, 10.0 * (state > 0))
        )
        for number, state in enumerate(states)
    ]
    return Track(1, Signal.LOSS, "", 0, Condition.BAD if states[-1] else Condition.NORMAL, 1e3, tuple(segments))


@pytest.mark.parametrize(
    ("states", "onset_s", "end_s", "before"),
    [
        ((CLEAN,), None, None, None),
        ((CLEAN, LOSSY), 100.0, None, (CLEAN,)),
        ((CLEAN, LOSSY, DEAD, LOSSY), 100.0, None, (CLEAN,)),
        ((CLEAN, DEAD, CLEAN), 100.0, 200.0, None),
        ((CLEAN, DEAD, CLEAN, DEAD), 300.0, None, (CLEAN, DEAD, CLEAN)),
        ((DEAD, LOSSY), 0.0, None, None),
    ],
)
def test_a_trouble_lasts_from_its_first_segment_to_the_next_that_is_clean(states, onset_s, end_s, before):
    of = track(*states)

    assert (None if of.onset is None else of.onset.at_s) == onset_s
    assert (None if of.end is None else of.end.at_s) == end_s
    earlier = of.before
    assert (None if earlier is None else tuple(segment.state for segment in earlier.segments)) == before
    if earlier is not None and len(earlier.segments) > 1:
        assert (earlier.end.at_s, earlier.condition) == (200.0, Condition.NORMAL)


@pytest.mark.parametrize(
    ("states", "condition", "told"),
    [
        ((CLEAN, DEAD, LOSSY), Condition.BAD, [CLEAN, DEAD, LOSSY]),
        ((CLEAN, DEAD, LOSSY), Condition.NORMAL, [CLEAN, DEAD, CLEAN]),
        ((CLEAN, DEAD, LOSSY), Condition.AWAITED, [CLEAN, DEAD, CLEAN]),
        ((CLEAN, DEAD, LOSSY), Condition.OVERDUE, [CLEAN, DEAD, LOSSY]),
        ((CLEAN, LOSSY), Condition.NORMAL, [CLEAN]),
        ((LOSSY,), Condition.NORMAL, [CLEAN]),
        ((LOSSY, CLEAN), Condition.NORMAL, [LOSSY, CLEAN]),
    ],
)
def test_a_loss_within_what_is_normal_goes_on_with_the_clean_segment(states, condition, told):
    segments = track(*states).segments

    of = as_told(condition, segments)

    assert [segment.state for segment in of] == told
    assert sum(segment.lost.lost for segment in of) == sum(segment.lost.lost for segment in segments)
    assert of[0].since == segments[0].since


@pytest.mark.parametrize(
    ("states", "moment_s", "kept"),
    [
        ((CLEAN, LOSSY, CLEAN), 150.0, (CLEAN, LOSSY, CLEAN)),
        ((CLEAN, LOSSY, CLEAN), 200.0, (CLEAN,)),
        ((CLEAN, LOSSY, CLEAN, DEAD, LOSSY), 250.0, (CLEAN, DEAD, LOSSY)),
        ((CLEAN, LOSSY, CLEAN, DEAD, CLEAN), 150.0, (CLEAN, LOSSY, CLEAN, DEAD, CLEAN)),
        ((DEAD,), 1e6, (DEAD,)),
        ((CLEAN,), 0.0, (CLEAN,)),
    ],
)
def test_a_track_since_a_moment_has_no_trouble_that_had_ended(states, moment_s, kept):
    of = track(*states)

    since = of.without_ended(moment_s)

    assert tuple(segment.state for segment in since.segments) == kept
    assert since.now == of.now
    assert since.troubles == of.troubles[len(of.troubles) - len(since.troubles) :]


@pytest.mark.parametrize(("at_s", "onset_s"), [(50.0, 100.0), (100.0, 100.0), (250.0, 100.0), (300.0, 300.0)])
def test_the_trouble_at_a_moment_is_the_newest_that_had_begun(at_s, onset_s):
    trouble = track(CLEAN, LOSSY, CLEAN, DEAD, CLEAN).trouble_at(at_s)

    assert trouble[0].since.at_s == onset_s


@pytest.mark.parametrize(
    ("ends_s", "every_s", "kept"),
    [
        ((), 10.0, 0),
        ((0.0,), 10.0, 1),
        ((0.0, 1100.0, 1140.0, 1180.0, 1220.0), 10.0, 4),
        ((0.0, 590.0), 10.0, 2),
        ((0.0, 610.0), 10.0, 1),
        ((0.0, 610.0), 60.0, 2),
        (tuple(range(0, 4000, 250)), 10.0, 16),
    ],
)
def test_the_newest_outages_in_a_row_are_those_of_one_flapping(ends_s, every_s, kept):
    outages = [(end_s - 20.0, end_s) for end_s in ends_s]

    assert newest_of(outages, every_s) == tuple(outages[len(outages) - kept :])


def test_outages_of_a_part_that_end_after_those_of_the_path_are_no_trouble():
    """The path has flapped until a moment ago; the third outage of its large packets ended a burst later."""
    facts = dict.fromkeys(("every_s", "packets"), np.full(2, 300.0)) | dict.fromkeys(
        ("own_s", "failed_s"), np.full(2, -np.inf)
    )
    facts |= dict.fromkeys(("is_set_aside", "is_dead", "is_above", "is_unusual"), np.zeros(2, dtype=bool))
    of = TrackFacts(
        **facts,
        started_s=np.zeros(2),
        newest_s=np.full(2, 1e4),
        limits=np.full(2, 0.01),
        outages=np.array([2.0, 3.0]),
        is_part=np.array([False, True]),
    )

    assert conditions(of, 1e4).tolist() == [Condition.NORMAL, Condition.NORMAL]
