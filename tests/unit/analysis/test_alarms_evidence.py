"""Causes by the evidence of paths that have not alarmed yet: named only if it is strong and there is no rival cause."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.analysis.alarms import candidates, grouping
from monitor.analysis.alarms.candidates import EXCEPTION_PRICE, PRICES, CauseKind
from monitor.analysis.alarms.grouping import explain
from tests.unit.analysis.test_alarms_grouping import SIX, ids, mesh, named, touching


class Factors:
    """Evidence with the same log Bayes factors for any bad paths; minus infinity for a path that is not listed."""

    def __init__(self, **by_group):
        self._factors = {path_id: factor for path_ids, factor in by_group.values() for path_id in path_ids}

    def log_factors(self, bad, others):
        return np.array([self._factors.get(path_id, -np.inf) for path_id in others])


STRONG = 8.0


def test_a_site_is_named_by_two_alarms_and_eight_suspects():
    touched = sorted(touching(SIX, "cern"))

    (cause,) = explain(SIX, touched[:2], evidence=Factors(suspects=(touched[2:], STRONG)))

    assert (cause.kind, cause.name) == (CauseKind.SITE, "cern")
    assert (cause.path_ids, cause.bad, cause.measured, cause.suspected) == (frozenset(touched[:2]), 2, 10, 8)


def test_two_alarms_of_ten_paths_without_evidence_are_no_site():
    touched = sorted(touching(SIX, "cern"))
    others = {line.path_id for line in SIX} - set(touched[:2])

    causes = explain(SIX, touched[:2], evidence=Factors(others=(others, 0.0)))

    assert {cause.kind for cause in causes} <= {CauseKind.PATH, CauseKind.PAIR}


def test_a_single_alarm_names_no_site_for_any_suspects():
    touched = sorted(touching(SIX, "cern"))

    causes = explain(SIX, touched[:1], evidence=Factors(suspects=(touched[1:], STRONG)))

    assert [cause.kind for cause in causes] == [CauseKind.PATH]


def test_a_direction_is_named_when_the_other_is_normal():
    out = sorted(ids(SIX, source_site="cern"))

    (cause,) = explain(SIX, out[:2], evidence=Factors(suspects=(out[2:], STRONG)))

    assert (cause.kind, cause.name, cause.suspected, cause.reverse_unclear) == (CauseKind.OUTBOUND, "cern", 3, 0)


def test_a_direction_is_named_with_the_other_unclear():
    out, back = sorted(ids(SIX, source_site="cern")), ids(SIX, destination_site="cern")

    (cause,) = explain(SIX, out, evidence=Factors(unclear=(back, 0.0)))

    assert (cause.kind, cause.reverse_bad, cause.reverse_unclear) == (CauseKind.OUTBOUND, 0, 5)


def test_a_cause_with_a_rival_is_not_named():
    """Five paths from cern have alarmed; those to cern cost nothing in either case: direction and site are equally
    likely."""
    out, back = sorted(ids(SIX, source_site="cern")), ids(SIX, destination_site="cern")
    neutral = grouping.LEAST_EVIDENCE

    causes = explain(SIX, out, evidence=Factors(neutral=(back, neutral)))

    assert PRICES[CauseKind.SITE] - PRICES[CauseKind.OUTBOUND] < grouping.MARGIN
    assert {cause.kind for cause in causes} == {CauseKind.PATH}


def test_rivals_leave_the_pairs_that_are_bad_in_both_directions():
    pair = ids(SIX, source="cern", destination="slac") | ids(SIX, source="slac", destination="cern")
    out = ids(SIX, source_site="cern")
    little = ids(SIX, destination_site="cern") - pair

    causes = explain(SIX, out | pair, evidence=Factors(little=(little, 0.4)))

    assert (CauseKind.PAIR, "cern ↔ slac") in named(causes)
    assert {cause.kind for cause in causes} == {CauseKind.PAIR, CauseKind.PATH}


@pytest.mark.parametrize(
    ("factor", "worth"),
    [(-50.0, -EXCEPTION_PRICE), (grouping.LEAST_EVIDENCE, 0.0), (50.0, grouping.MOST_SUPPORT)],
)
def test_support_ranges_from_an_exception_to_almost_an_alarm(factor, worth):
    assert grouping.support(np.array([factor])) == pytest.approx([worth], abs=0.005)


@given(st.lists(st.floats(-30.0, 30.0), min_size=2))
def test_support_grows_with_the_evidence(factors):
    assert (np.diff(grouping.support(np.sort(factors))) >= 0.0).all()


@settings(max_examples=40, deadline=None)
@given(
    st.sets(st.integers(1, 12), min_size=1),
    st.dictionaries(st.tuples(st.integers(0, 40), st.integers(1, 12)), st.floats(-EXCEPTION_PRICE, 0.8), max_size=60),
)
def test_no_set_of_causes_is_cheaper_by_their_own_evidence(bad, worths):
    """As above, with a weight of each path without an alarm for each candidate."""
    lines, bad_ids, with_data = mesh("slac", "cern", "fnal", "niit"), frozenset(bad), frozenset(range(1, 13))
    general = [
        replace(candidate, support={path_id: worth for (at, path_id), worth in worths.items() if at == place})
        for place, candidate in enumerate(candidates.candidates(lines, {}))
    ]
    general = [candidate for candidate in general if grouping.is_worthwhile(candidate, bad_ids, with_data)]

    def cost(chosen):
        explained = set().union(*(candidate.path_ids for candidate in chosen))
        of_others = 0.0
        for path_id in (explained & with_data) - bad_ids:
            worth = [c.support.get(path_id, -EXCEPTION_PRICE) for c in chosen if path_id in c.path_ids]
            of_others -= min(min(worth), 0.0) + max(max(worth), 0.0)
        return sum(PRICES[c.kind] for c in chosen) + PRICES[CauseKind.PATH] * len(bad_ids - explained) + of_others

    chosen = [general[place] for place in grouping.cheapest(general, bad_ids, with_data)]

    least = min(cost(subset) for size in range(4) for subset in itertools.combinations(general, size))
    assert cost(chosen) <= least + 1e-6
    assert grouping.price(chosen, bad_ids, with_data) == pytest.approx(cost(chosen))
