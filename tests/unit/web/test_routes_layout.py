"""The layout of the graph of routes: no overlap, ends at the sides, the same for the same routes in any order."""

from itertools import combinations
from random import Random

import pytest

from monitor.web.pages.routes.layout import arrange

SIZE = (120.0, 40.0)


def mesh(sites):
    """Routes between all sites, each behind a network of its own, by way of one of two transit networks."""
    return [
        (f"site:{a:02d}", f"as:{a:02d}", f"as:transit-{(a + b) % 2}", f"as:{b:02d}", f"site:{b:02d}")
        for a in range(sites)
        for b in range(sites)
        if a != b
    ]


def laid_out(chains, start=()):
    return arrange(chains, {key: SIZE for keys in chains for key in keys}, start)


def edges(box):
    return box.x - box.width / 2, box.x + box.width / 2, box.y - box.height / 2, box.y + box.height / 2


@pytest.mark.parametrize("sites", [2, 5, 12, 30])
def test_no_parts_overlap_and_all_are_inside(sites):
    placed = laid_out(mesh(sites))

    boxes = [edges(box) for box in placed.boxes.values()]
    assert len(boxes) == 2 * sites + (2 if sites > 2 else 1)
    assert all(
        left >= 0 and right <= placed.width and top >= 0 and bottom <= placed.height
        for left, right, top, bottom in boxes
    )
    for a, b in combinations(boxes, 2):
        assert a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] + 0.01 or b[3] <= a[2] + 0.01


def test_sites_are_at_both_sides_and_transit_in_the_middle():
    placed = laid_out(mesh(12)).boxes

    middle = {placed[f"as:transit-{number}"].x for number in (0, 1)}
    sites = [box.x for key, box in placed.items() if key.startswith("site:")]
    assert len(middle) == 1
    assert sorted(set(sites)) == [min(box.x for box in placed.values()), max(box.x for box in placed.values())]
    assert abs(sites.count(min(sites)) - 6) <= 1
    assert min(sites) < middle.pop() < max(sites)


def test_a_chosen_site_is_alone_on_the_left():
    chains = [keys for keys in mesh(8) if "site:03" in (keys[0], keys[-1])]

    placed = laid_out(chains, {"site:03"}).boxes

    assert [key for key, box in placed.items() if box.x == min(other.x for other in placed.values())] == ["site:03"]


def test_the_order_of_routes_does_not_matter():
    chains = mesh(9)
    shuffled = chains.copy()
    Random(7).shuffle(shuffled)

    assert laid_out(shuffled) == laid_out(chains)


def test_a_link_past_a_column_bends_around_its_parts():
    chains = [("site:a", "x", "y", "z", "site:b"), ("site:a", "z", "site:b")]

    placed = arrange(chains, dict.fromkeys(("site:a", "x", "y", "z", "site:b"), SIZE), {"site:a"})

    bends = [bend for bends in placed.bends.values() for bend in bends]
    assert bends
    for bend in bends:
        column = [box for box in placed.boxes.values() if abs(box.x - bend.x) < 1]
        assert all(abs(box.y - bend.y) >= (box.height + bend.height) / 2 for box in column)


def test_routes_without_known_hops_join_their_sites():
    placed = laid_out([("site:a", "site:b"), ("site:b", "site:a")])

    assert placed.boxes["site:a"].y == placed.boxes["site:b"].y
    assert list(placed.bends.values()) == [[]]
