"""The link at which loss begins: worked cases, and simulated paths whose routers limit replies or are silent."""

from __future__ import annotations

import pytest

from monitor.analysis.routes.onset import HopCounts, by_as, find_onset, positions
from tests.routes.lossy_paths import is_right, lossy_path


def counts(*losses, sent=200, end=2000):
    """Counts of hops with these losses in percent; the destination is pinged as well."""
    hops = [HopCounts(sent, round(sent * loss / 100)) for loss in losses]
    return [*hops[:-1], HopCounts(end, round(end * losses[-1] / 100))]


def test_loss_from_both_ends_names_the_link():
    onset = find_onset(counts(0, 0, 0, 10, 9, 11, 10), counts(0, 0, 0, 10, 10, 11, 10))

    assert onset.is_certain
    assert (onset.near_ttl, onset.far_ttl, onset.is_of_reverse, onset.ends) == (3, 4, False, 2)
    assert onset.next_probability < 0.05


def test_from_one_end_the_direction_must_be_measured():
    """Replies may have come back by another way: without the direction the link is likely, not certain."""
    hops = counts(0, 0, 0, 10, 9, 11, 10)

    unknown, known = find_onset(hops), find_onset(hops, forward_probability=1.0)

    assert (unknown.near_ttl, unknown.far_ttl, unknown.is_certain) == (3, 4, False)
    assert (known.near_ttl, known.far_ttl, known.is_certain) == (3, 4, True)


def test_a_silent_hop_beside_the_link_widens_its_name():
    onset = find_onset(counts(0, 0, 0, 100, 9, 11, 10), forward_probability=1.0)

    assert (onset.near_ttl, onset.far_ttl, onset.is_certain) == (3, 5, True)


@pytest.mark.parametrize("losses", [(0, 60, 0, 0, 0), (0, 0, 35, 40, 0), (90, 0, 0, 5, 0)])
def test_a_router_that_limits_replies_is_no_loss(losses):
    assert find_onset(counts(*losses), counts(*losses[-2::-1], losses[-1])) is None


def test_a_limited_router_before_the_link_is_told_by_its_past():
    """The third router loses as much as the path since long ago, so loss begins behind it."""
    hops = counts(0, 0, 10, 10, 11, 10)
    hops[2] = HopCounts(200, 20, 1000, 100)
    for place in (0, 1, 3, 4):
        hops[place] = HopCounts(hops[place].sent, hops[place].lost, 1000, 0)

    onset = find_onset(hops, forward_probability=1.0)

    assert onset.near_ttl in (2, 3)
    assert onset.far_ttl == 4


def test_routes_of_other_lengths_are_mirrored_by_their_as():
    mirror = by_as([1, 1, 2, 3], [3, 3, 2, 2, 1])

    assert [(a, b) for a in (1, 2, 3) for b in (1, 2, 3, 4) if mirror(a, b)] == [(2, 4), (3, 2)]
    assert [(a, b) for a in (1, 2, 3) for b in (1, 2, 3, 4) if positions(3, 4)(a, b)] == []
    assert [(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if positions(3, 3)(a, b)] == [(1, 3), (2, 2), (3, 1)]


def onset_of(path):
    mirror = by_as(path.as_numbers(of_reverse=False), path.as_numbers(of_reverse=True))
    return find_onset(path.forward_counts, path.reverse_counts, mirror)


def test_limited_routers_on_simulated_paths_are_never_blamed():
    assert all(onset_of(lossy_path(seed, has_loss=False, must_limit=True)) is None for seed in range(60))


def test_planted_links_on_simulated_paths_are_named():
    wrong, told = 0, 0
    for seed in range(100):
        path = lossy_path(seed)
        onset = onset_of(path)
        if onset is not None and onset.is_certain:
            told += 1
            wrong += not is_right(path, onset.near_ttl, onset.far_ttl, onset.is_of_reverse)
    assert wrong <= 5
    assert told >= 65
