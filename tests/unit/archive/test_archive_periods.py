"""Selection of the summaries that cover a period."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.archive.periods import TierStretch, cover, cover_exactly, end_of, next_start, start_of

moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
lengths = st.timedeltas(timedelta(0), timedelta(days=4000))


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        ("2026-03-14T10:30", "2026-03-14T11:30", [("hour", "2026-03-14T10:00", "2026-03-14T12:00")]),
        ("2026-03-12T11:30", "2026-03-14T11:30", [("hour", "2026-03-12T11:00", "2026-03-14T12:00")]),
        (
            "2026-03-12T11:29",
            "2026-03-14T11:30",
            [
                ("day", "2026-03-12", "2026-03-14"),
                ("hour", "2026-03-14", "2026-03-14T12:00"),
            ],
        ),
        ("2026-03-12", "2026-03-15", [("day", "2026-03-12", "2026-03-14"), ("hour", "2026-03-14", "2026-03-15")]),
        (
            "2026-03-12",
            "2026-03-15T00:59",
            [("day", "2026-03-12", "2026-03-14"), ("hour", "2026-03-14", "2026-03-15T01:00")],
        ),
        (
            "2026-01-31T12:00",
            "2026-06-02T04:10",
            [
                ("day", "2026-01-31", "2026-02-01"),
                ("month", "2026-02-01", "2026-06-01"),
                ("day", "2026-06-01", "2026-06-02"),
                ("hour", "2026-06-02", "2026-06-02T05:00"),
            ],
        ),
        (
            "2025-01-01",
            "2026-01-01T01:00",
            [
                ("month", "2025-01-01", "2025-12-01"),
                ("day", "2025-12-01", "2026-01-01"),
                ("hour", "2026-01-01", "2026-01-01T01:00"),
            ],
        ),
    ],
)
def test_long_summaries_fill_a_period_and_short_ones_its_edges(since, until, expected):
    assert cover(at(since), at(until)) == [TierStretch(tier, at(first), at(last)) for tier, first, last in expected]


def test_a_past_period_uses_the_summaries_of_its_last_day():
    week = cover(at("2026-11-16"), at("2026-11-23"), now=at("2026-11-23T01:00"))
    assert week == [TierStretch("day", at("2026-11-16"), at("2026-11-23"))]
    year = cover(at("2025-01-01"), at("2026-01-01"), now=at("2026-01-02"))
    assert year == [TierStretch("month", at("2025-01-01"), at("2026-01-01"))]


def test_an_empty_period_has_no_stretches():
    assert cover(at("2026-01-01"), at("2026-01-01")) == []


@given(moments, lengths)
def test_stretches_cover_the_period_and_align_with_their_tier(since, length):
    stretches = cover(since, since + length)

    for before, after in pairwise(stretches):
        assert before.until == after.since
    for stretch in stretches:
        assert stretch.since < stretch.until
        assert start_of(stretch.tier, stretch.since) == stretch.since
        assert start_of(stretch.tier, stretch.until) == stretch.until
    if stretches:
        assert stretches[0].since <= since
        assert stretches[-1].until >= since + length
        overlap = timedelta(hours=1) if length <= timedelta(days=2) else timedelta(days=1)
        assert since - stretches[0].since < overlap
        assert stretches[-1].until - (since + length) < timedelta(hours=1)
        assert all(s.until + timedelta(hours=1) <= since + length for s in stretches if s.tier == "day")
        assert all(s.until + timedelta(days=1) <= since + length for s in stretches if s.tier == "month")
    assert sum((s.until - s.since).days + 1 for s in stretches if s.tier == "day") <= 66


@given(moments, st.sampled_from(["hour", "day", "month", "year"]))
def test_every_moment_is_between_a_start_and_the_next(moment, tier):
    start, following = start_of(tier, moment), next_start(tier, moment)

    assert start <= moment < following
    assert start_of(tier, following) == following
    assert start_of(tier, following - timedelta(microseconds=1)) == start
    assert end_of(tier, moment) == (moment if moment == start else following)


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (
            "2026-11-15T23:00",
            "2026-11-22T23:00",
            [
                ("hour", "2026-11-15T23:00", "2026-11-16"),
                ("day", "2026-11-16", "2026-11-22"),
                ("hour", "2026-11-22", "2026-11-22T23:00"),
            ],
        ),
        ("2026-11-16", "2026-11-23", [("day", "2026-11-16", "2026-11-23")]),
        ("2026-11-16T10:30", "2026-11-16T20:30", [("hour", "2026-11-16T11:00", "2026-11-16T21:00")]),
        ("2026-11-16T10:20", "2026-11-16T10:40", []),
    ],
)
def test_exact_cover_has_hours_at_both_edges(since, until, expected):
    assert cover_exactly(at(since), at(until)) == [
        TierStretch(tier, at(first), at(last)) for tier, first, last in expected
    ]


@given(moments, lengths)
def test_exact_cover_has_each_hour_that_begins_in_it_once(since, length):
    parts = cover_exactly(since, since + length)

    assert all(part.until == following.since for part, following in pairwise(parts))
    if parts:
        assert (parts[0].since, parts[-1].until) == (end_of("hour", since), end_of("hour", since + length))
