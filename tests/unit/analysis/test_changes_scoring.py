"""Scoring, compared with brute force over every one-to-one matching."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.analysis.changes import scoring
from monitor.analysis.changes.scoring import DetectionScore

few_places = st.lists(st.integers(0, 18), unique=True, max_size=6).map(sorted)


def best_by_force(changes: list[int], reports: list[int], window: int) -> tuple[int, int]:
    """The maximum number of matches and, negated, its minimum total distance."""
    best = (0, 0)
    for count in range(1, min(len(changes), len(reports)) + 1):
        for some in itertools.combinations(changes, count):
            for others in itertools.permutations(reports, count):
                distances = [abs(a - b) for a, b in zip(some, others, strict=True)]
                if max(distances) <= window:
                    best = max(best, (count, -sum(distances)))
    return best


@given(few_places, few_places, st.integers(0, 4))
def test_matches_are_maximal_in_number_then_in_proximity(changes, reports, window):
    pairs = scoring.match(changes, reports, window)

    distances = [abs(changes[row] - reports[column]) for row, column in pairs]
    assert all(distance <= window for distance in distances)
    assert len({row for row, _ in pairs}) == len({column for _, column in pairs}) == len(pairs)
    assert (len(pairs), -sum(distances)) == best_by_force(changes, reports, window)


def test_more_matches_take_precedence_over_nearer_matches():
    """12 is nearest to 12, but then 10 would have no match: 10-12 and 12-14 are two matches."""
    assert scoring.match([10, 12], [12, 14]) == [(0, 0), (1, 1)]


def test_a_change_is_matched_once():
    assert scoring.score([100], [99, 100, 101]) == DetectionScore(matched=1, false=2, missed=0)


def test_a_report_that_is_too_late_is_a_miss_and_a_false_alarm():
    in_time, late = (scoring.score([100], [101], [raised_at]) for raised_at in (115, 116))

    assert in_time == DetectionScore(matched=1, delays=(15,))
    assert late == DetectionScore(false=1, missed=1)


def test_scores_of_traces_are_pooled_and_not_averaged():
    pooled = sum(
        [DetectionScore(1, 0, 0, (4,)), DetectionScore(1, 2, 3, (8,)), DetectionScore(0, 1, 0)], DetectionScore()
    )

    assert pooled == DetectionScore(2, 3, 3, (4, 8))
    assert (pooled.precision, pooled.recall, pooled.f1) == pytest.approx((2 / 5, 2 / 5, 2 / 5))
    assert pooled.median_delay == 6


def test_published_counts_give_published_ratios():
    """The table of the labelled data: 377 matched, 599 false, 167 missed."""
    published = DetectionScore(377, 599, 167)

    assert [round(value, 3) for value in (published.precision, published.recall, published.f1)] == [0.386, 0.693, 0.496]


def test_without_reports_there_is_no_precision():
    silent = scoring.score([5], [])

    assert (silent.precision, silent.recall, silent.f1, silent.median_delay) == (None, 0.0, 0.0, None)


@given(few_places, st.integers(0, 18), st.integers(0, 5))
def test_quiet_samples_are_those_far_from_every_mark(marked, samples, margin):
    still = scoring.quiet(marked, samples, margin)

    assert still.tolist() == [all(abs(at - mark) > margin for mark in marked) for at in range(samples)]


def test_large_traces_prefer_more_matches_to_distance():
    """Every change is matched by the report 2 away, although each second report is nearer to the next change."""
    changes = np.arange(0, 900, 3)

    pairs = scoring.match(changes, changes + 2)

    assert len(pairs) == len(changes)
