"""Common causes of bad paths: planted causes are identified, and no cheaper explanation exists."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.analysis.alarms import candidates, grouping
from monitor.analysis.alarms.candidates import EXCEPTION_PRICE, PRICES, CauseKind, PathLocation
from monitor.analysis.alarms.grouping import explain


def mesh(*sites, hosts=1):
    """A full mesh; with two hosts per site these are called a.1 and a.2."""
    names = {site: [site] if hosts == 1 else [f"{site}.{number}" for number in range(1, hosts + 1)] for site in sites}
    pairs = [(a, b, x, y) for a in sites for b in sites if a != b for x in names[a] for y in names[b]]
    return [PathLocation(number, x, y, a, b, 4) for number, (a, b, x, y) in enumerate(pairs, start=1)]


SIX = mesh("slac", "cern", "fnal", "niit", "anl", "desy")


def ids(lines, **ends):
    return {line.path_id for line in lines if all(getattr(line, end) == name for end, name in ends.items())}


def touching(lines, site):
    return ids(lines, source_site=site) | ids(lines, destination_site=site)


def named(causes):
    return [(cause.kind, cause.name) for cause in causes]


def test_no_bad_path_has_no_cause():
    assert explain(SIX, set()) == []


def test_all_paths_of_a_site_are_explained_by_the_site():
    (cause,) = explain(SIX, touching(SIX, "cern"))

    assert (cause.kind, cause.name) == (CauseKind.SITE, "cern")
    assert (cause.bad, cause.measured, cause.elsewhere_bad, cause.elsewhere_known) == (10, 10, 0, 20)


def test_four_of_five_outbound_paths_are_explained_by_direction():
    out = ids(SIX, source_site="cern")

    (cause,) = explain(SIX, set(sorted(out)[:4]))

    assert (cause.kind, cause.name) == (CauseKind.OUTBOUND, "cern")
    assert (cause.bad, cause.measured, cause.reverse_bad, cause.reverse_known) == (4, 5, 0, 5)


def test_paths_without_data_are_no_counter_evidence():
    out = sorted(ids(SIX, source_site="cern"))

    (cause,) = explain(SIX, set(out[:2]), unknown=set(out[2:]))

    assert (cause.kind, cause.measured) == (CauseKind.OUTBOUND, 2)


def test_two_bad_directions_are_a_pair_a_single_direction_a_path():
    there, back = ids(SIX, source="cern", destination="slac"), ids(SIX, source="slac", destination="cern")

    assert named(explain(SIX, there | back)) == [(CauseKind.PAIR, "cern ↔ slac")]
    (alone,) = explain(SIX, there)
    assert (alone.kind, alone.name) == (CauseKind.PATH, "cern → slac")
    assert (alone.reverse_bad, alone.reverse_known) == (0, 1)


def test_two_bad_paths_of_ten_are_not_explained_by_the_site():
    bad = ids(SIX, source="cern", destination="slac") | ids(SIX, source="cern", destination="fnal")

    assert {cause.kind for cause in explain(SIX, bad)} == {CauseKind.PATH}


def test_two_simultaneous_causes_are_distinguished():
    bad = (
        touching(SIX, "cern")
        | ids(SIX, source="slac", destination="fnal")
        | ids(SIX, source="fnal", destination="slac")
    )

    assert named(explain(SIX, bad)) == [(CauseKind.SITE, "cern"), (CauseKind.PAIR, "fnal ↔ slac")]


def test_a_bad_host_of_two_is_named_as_the_host():
    lines = mesh("slac", "cern", "fnal", hosts=2)
    bad = ids(lines, source="cern.1") | ids(lines, destination="cern.1")

    assert named(explain(lines, bad)) == [(CauseKind.HOST, "cern.1")]


def test_if_every_path_is_bad_the_cause_is_the_whole_mesh():
    assert named(explain(SIX, {line.path_id for line in SIX})) == [(CauseKind.ALL, "")]


def test_a_link_crossed_by_exactly_the_bad_paths_is_the_cause():
    bad = ids(SIX, source_site="slac", destination_site="cern") | ids(SIX, source_site="fnal", destination_site="desy")
    bad |= ids(SIX, source_site="anl", destination_site="cern")

    assert named(explain(SIX, bad, links={"geneva–chicago": bad})) == [(CauseKind.LINK, "geneva–chicago")]


def price(chosen, bad, with_data):
    """The cost of an explanation, computed independently of the code."""
    explained = set().union(*(cause.path_ids for cause in chosen)) if chosen else set()
    return (
        sum(PRICES[cause.kind] for cause in chosen)
        + PRICES[CauseKind.PATH] * len(bad - explained)
        + EXCEPTION_PRICE * len((explained & with_data) - bad)
    )


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(1, 12), min_size=1), st.sets(st.integers(1, 12), max_size=3))
def test_no_set_of_causes_is_cheaper(bad, unknown):
    """Compared with every set of up to four candidates in a mesh of four sites that cost less than separate paths."""
    lines = mesh("slac", "cern", "fnal", "niit")
    bad_ids, with_data = frozenset(bad - unknown), frozenset(range(1, 13)) - unknown
    alone = PRICES[CauseKind.PATH]
    general = [
        candidate
        for candidate in candidates.candidates(lines, {})
        if price([candidate], candidate.path_ids & bad_ids, with_data) < alone * len(candidate.path_ids & bad_ids)
    ]

    chosen = [general[place] for place in grouping.cheapest(general, bad_ids, with_data)] if bad_ids else []

    least = min(
        price(subset, bad_ids, with_data) for size in range(5) for subset in itertools.combinations(general, size)
    )
    assert price(chosen, bad_ids, with_data) <= least + 1e-6


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(1, 30), min_size=1), st.sets(st.integers(1, 30), max_size=3))
def test_the_greedy_choice_never_costs_more_than_single_paths(bad, unknown):
    bad_ids, with_data = frozenset(bad - unknown), frozenset(range(1, 31)) - unknown
    general = candidates.candidates(SIX, {})

    chosen = [general[place] for place in grouping.greedy_choice(general, bad_ids, with_data)]

    assert price(chosen, bad_ids, with_data) <= PRICES[CauseKind.PATH] * len(bad_ids) + 1e-9
    assert grouping.price(chosen, bad_ids, with_data) == pytest.approx(price(chosen, bad_ids, with_data))


def test_a_site_is_identified_without_time_for_exact_search(monkeypatch):
    monkeypatch.setattr(grouping, "LONGEST_SEARCH_S", 0.0)
    sites = [f"s{number}" for number in range(20)]
    lines = mesh(*sites)
    chance = random.Random(3)
    bad = touching(lines, "s7") | {line.path_id for line in lines if chance.random() < 0.3}

    causes = explain(lines, bad)

    assert set().union(*(cause.path_ids for cause in causes)) == bad
    assert (CauseKind.SITE, "s7") in named(causes)


@pytest.mark.parametrize("seed", range(40))
def test_planted_causes_are_identified_with_10_percent_noise(seed):
    """One or two sites, directions or pairs without common sites, in a mesh of nine; paths deviate from the cause at
    random."""
    chance = random.Random(seed)
    sites = [f"s{number}" for number in range(9)]
    lines = mesh(*sites)
    chance.shuffle(sites)
    planted = []
    for place in range(chance.choice((1, 2))):
        a, b = sites[2 * place], sites[2 * place + 1]
        kind = chance.choice((CauseKind.SITE, CauseKind.OUTBOUND, CauseKind.INBOUND, CauseKind.PAIR))
        where = {
            CauseKind.SITE: touching(lines, a),
            CauseKind.OUTBOUND: ids(lines, source_site=a),
            CauseKind.INBOUND: ids(lines, destination_site=a),
            CauseKind.PAIR: ids(lines, source_site=a, destination_site=b)
            | ids(lines, source_site=b, destination_site=a),
        }[kind]
        planted.append((kind, " ↔ ".join(sorted((a, b))) if kind is CauseKind.PAIR else a, where))
    bad = set()
    for kind, _, where in planted:
        hidden = chance.sample(sorted(where), len(where) // 10) if kind is not CauseKind.PAIR else []
        bad |= where - set(hidden)

    causes = explain(lines, bad)

    assert {(kind, name) for kind, name, _ in planted} <= set(named(causes))
    assert set().union(*(cause.path_ids for cause in causes)) == bad
    assert sum(len(cause.path_ids) for cause in causes) == len(bad), "a path in two causes"
