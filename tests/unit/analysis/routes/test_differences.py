"""Two routes side by side: their differences by address and by AS."""

from __future__ import annotations

import random

import pytest

from monitor.analysis.routes.compare import RouteHops, is_compatible
from monitor.analysis.routes.differences import BlockKind, diff, diff_as, difference

SAME, REPLACED, INSERTED, REMOVED = BlockKind.UNCHANGED, BlockKind.REPLACED, BlockKind.INSERTED, BlockKind.REMOVED


def route(text, reached=True):
    """A letter for each hop, "." where silent."""
    return RouteHops(tuple(None if letter == "." else letter for letter in text), reached)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("abcd", "axcd", [(SAME, "a", "a"), (REPLACED, "b", "x"), (SAME, "cd", "cd")]),
        ("abcd", "abxcd", [(SAME, "ab", "ab"), (INSERTED, "", "x"), (SAME, "cd", "cd")]),
        ("abxcd", "abcd", [(SAME, "ab", "ab"), (REMOVED, "x", ""), (SAME, "cd", "cd")]),
        ("abcde", "axyze", [(SAME, "a", "a"), (REPLACED, "bcd", "xyz"), (SAME, "e", "e")]),
        ("abcde", "axyzwe", [(SAME, "a", "a"), (REPLACED, "bcd", "xyzw"), (SAME, "e", "e")]),
        ("ab.de", "abcde", [(SAME, "ab.de", "abcde")]),
        ("ab.de", "axcye", [(SAME, "a", "a"), (REPLACED, "b.d", "xcy"), (SAME, "e", "e")]),
        ("a.cde", "abcxe", [(SAME, "a.c", "abc"), (REPLACED, "d", "x"), (SAME, "e", "e")]),
        ("abcdef", "axcdyf", [(SAME, "a", "a"), (REPLACED, "b", "x"), (SAME, "cd", "cd"), (REPLACED, "e", "y"),
                              (SAME, "f", "f")]),
    ],
)  # fmt: skip
def test_two_routes_are_shown_in_blocks(before, after, expected):
    blocks = diff(route(before), route(after))

    assert [(block.kind, block.before, block.after) for block in blocks] == [
        (kind, route(left).hops, route(right).hops) for kind, left, right in expected
    ]


def test_hops_beyond_the_end_of_an_unfinished_route_are_unknown():
    blocks = diff(route("abcde"), route("ax", reached=False))

    assert [(block.kind, block.before) for block in blocks] == [
        (SAME, ("a",)), (REPLACED, ("b",)), (SAME, ("c", "d", "e"))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("abcde", "axcde", (2, 2, 2)),
        ("abcde", "axcye", (2, 4, 4)),
        ("abcde", "abxcde", (3, 2, 3)),  # a router more between the second hop and the third
        ("abcde", "abxyze", (3, 4, 5)),
        ("ab.de", "abcde", None),
    ],
)
def test_the_first_and_last_different_ttl(before, after, expected):
    result = difference(route(before), route(after))

    assert (result and (result.first_ttl, result.last_ttl_before, result.last_ttl_after)) == expected


def as_of(address):
    """AS 1 for a to d, 2 for e to h, 3 for i to l, and so on; none for x, y and z."""
    return None if address in "xyz" else (ord(address) - ord("a")) // 4 + 1


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("abefmn", "abijmn", [(SAME, (1,), (1,)), (REPLACED, (2,), (3,)), (SAME, (4,), (4,))]),
        ("abefmn", "cdghmn", [(SAME, (1, 2, 4), (1, 2, 4))]),  # other routers of the same AS
        ("abefmn", "abmn", [(SAME, (1,), (1,)), (REMOVED, (2,), ()), (SAME, (4,), (4,))]),
        ("abmn", "abijmn", [(SAME, (1,), (1,)), (INSERTED, (), (3,)), (SAME, (4,), (4,))]),
        ("abemn", "ab.mn", [(SAME, (1, 2, 4), (1, 2, 4))]),  # silence hides the AS, it does not remove it
        ("abmn", "abxmn", [(SAME, (1,), (1,)), (SAME, (4,), (None, 4))]),  # an IXP without an AS of its own
        ("a.mn", "aifmn", [(SAME, (1, 3), (1, 3)), (INSERTED, (), (2,)), (SAME, (4,), (4,))]),
        ("ab.efmn", "ac.iimn", [(SAME, (1, None), (1, None)), (REPLACED, (2,), (3,)), (SAME, (4,), (4,))]),
        ("abe.fmn", "abegfmn", [(SAME, (1, 2, 4), (1, 2, 4))]),
    ],
)
def test_two_routes_are_shown_in_blocks_of_as(before, after, expected):
    blocks = diff_as(route(before), route(after), as_of)

    changed = [(block.kind, block.before, block.after) for block in blocks if block.kind is not SAME]
    assert changed == [block for block in expected if block[0] is not SAME]
    assert sum((block.before for block in blocks), ()) == sum((left for _, left, _ in expected), ())
    assert sum((block.after for block in blocks), ()) == sum((right for _, _, right in expected), ())


def test_blocks_of_as_have_the_ttls_of_their_hops():
    (_, changed, _) = diff_as(route("ab.fmn"), route("acijmn"), as_of)

    assert (changed.before_ttls, changed.after_ttls) == ((4, 4), (3, 4))


def test_diffs_hold_both_routes_and_silence_changes_nothing():
    """Random routes: blocks put together are the routes; two silenced copies of a route never differ."""
    generator = random.Random(20)
    for _ in range(300):
        before = route(generator.choices("abcdef.", k=generator.randint(1, 9)), generator.random() < 0.8)
        after = route(generator.choices("abcdef.", k=generator.randint(1, 9)), generator.random() < 0.8)
        blocks = diff(before, after)
        assert sum((block.before for block in blocks), ()) == before.hops
        assert sum((block.after for block in blocks), ()) == after.hops
        hops = generator.sample("abcdefgh", 8)
        copies = [
            RouteHops(tuple(hop if generator.random() < 0.7 else None for hop in hops), reached)
            for reached in (True, generator.random() < 0.8)
        ]
        assert is_compatible(*copies)
        assert difference(*copies) is None
        assert all(block.kind is SAME for block in diff_as(*copies, as_of))
