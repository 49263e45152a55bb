"""Loss of each direction from counters: whatever is planted on the way is counted in its direction."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.stamp import directions
from probes.stamp.directions import ArrivedReply, count_directions

SPACING_NS = 100_000_000


@dataclass
class Fate:
    """A packet's way there and that of each of its replies: lost, copies, delays in steps of the spacing."""

    lost_forward: bool = False
    delays_forward: tuple[int, ...] = (0,)
    lost_reverse: tuple[bool, ...] = (False, False)
    delays_reverse: tuple[tuple[int, ...], ...] = ((0,), (0,))


@dataclass
class Planted:
    """What happened on the way, and the replies that arrived."""

    replies: list[ArrivedReply] = field(default_factory=list)
    forward_lost: int = 0
    reverse_lost: int = 0
    forward_duplicates: int = 0
    reverse_duplicates: int = 0


def travel(fates: list[Fate], sent: int, *, counter: int = 0, restart_at_ns: int | None = None) -> Planted:
    """Send packets with these fates to a reflector; those from `sent` on are closing packets."""
    planted = Planted()
    arrivals = []
    for turn, fate in enumerate(fates):
        if fate.lost_forward:
            planted.forward_lost += turn < sent
            continue
        planted.forward_duplicates += (len(fate.delays_forward) - 1) * (turn < sent)
        arrivals += [
            (SPACING_NS * (10 + turn + delay) + copy * 2_000_000 + turn * 3_000, turn, copy)
            for copy, delay in enumerate(fate.delays_forward)
        ]
    returned = []
    restarted = False
    for at_ns, turn, copy in sorted(arrivals):
        if restart_at_ns is not None and at_ns >= restart_at_ns and not restarted:
            counter, restarted = 0, True
        number, counter = counter, (counter + 1) % 2**32
        fate = fates[turn]
        if fate.lost_reverse[copy]:
            planted.reverse_lost += turn < sent
            continue
        planted.reverse_duplicates += (len(fate.delays_reverse[copy]) - 1) * (turn < sent)
        returned += [
            (at_ns + SPACING_NS * (1 + delay) + 500 * again, ArrivedReply(turn, number, at_ns))
            for again, delay in enumerate(fate.delays_reverse[copy])
        ]
    planted.replies = [reply for _, reply in sorted(returned, key=lambda pair: pair[0])]
    return planted


def copies(lost: bool) -> st.SearchStrategy[Fate]:
    """A packet that is lost reverse is not duplicated forward: counters cannot tell that from two packets."""
    delays = st.lists(st.integers(0, 3), min_size=1, max_size=2).map(tuple)
    return st.builds(
        Fate,
        lost_forward=st.just(False),
        delays_forward=st.lists(st.integers(0, 3), min_size=1, max_size=1 if lost else 2).map(tuple),
        lost_reverse=st.just((lost, lost)),
        delays_reverse=st.tuples(delays, delays),
    )


FATES = st.lists(st.one_of(st.just(Fate(lost_forward=True)), st.booleans().flatmap(copies)), min_size=1, max_size=25)


@settings(max_examples=150, deadline=None)
@given(FATES)
def test_planted_loss_and_duplicates_are_counted_in_their_direction(fates: list[Fate]) -> None:
    # The reflector ran from the first packet on. The last ones arrive in order, as closing packets do a second later.
    planted = travel([Fate(), *fates, *[Fate()] * 5], len(fates) + 6)

    counts = count_directions(len(fates) + 6, planted.replies)

    assert counts.is_stateful is True
    assert (counts.forward_lost, counts.reverse_lost) == (planted.forward_lost, planted.reverse_lost)
    assert (counts.forward_duplicates, counts.reverse_duplicates) == (
        planted.forward_duplicates,
        planted.reverse_duplicates,
    )
    assert counts.undecided == 0


@settings(max_examples=100, deadline=None)
@given(FATES)
def test_no_packet_without_a_reply_is_left_out(fates: list[Fate]) -> None:
    planted = travel(fates, len(fates))
    answered = len({reply.turn for reply in planted.replies})

    counts = count_directions(len(fates), planted.replies)

    # At the end, an overtaken packet without a reply looks like a lost one: only the sum is certain.
    told = (counts.forward_lost or 0) + (counts.reverse_lost or 0) + counts.undecided
    assert told == len(fates) - answered


def test_reordering_is_counted_in_its_direction() -> None:
    late_there = [Fate(), Fate(delays_forward=(2,)), Fate(), Fate(), Fate()]
    late_back = [Fate(), Fate(), Fate(delays_reverse=((3,), (0,))), Fate(), Fate(), Fate()]

    there = count_directions(5, travel(late_there, 5).replies)
    back = count_directions(6, travel(late_back, 6).replies)

    assert (there.forward_reordered, there.reverse_reordered) == (1, 0)
    assert (back.forward_reordered, back.reverse_reordered) == (0, 1)


LOST = Fate(lost_forward=True)
NO_REPLY = Fate(lost_reverse=(True, True))


@pytest.mark.parametrize(("tail", "forward", "reverse"), [([LOST] * 3, 3, 0), ([NO_REPLY] * 3, 0, 3)])
@pytest.mark.parametrize("closing", [[Fate()], [Fate(), Fate()]])
def test_a_closing_packet_tells_the_direction_of_a_loss_at_the_end(tail, forward, reverse, closing) -> None:
    planted = travel([Fate()] * 4 + tail + closing, 7)

    counts = count_directions(7, planted.replies)

    assert (counts.forward_lost, counts.reverse_lost, counts.undecided) == (forward, reverse, 0)


def test_loss_at_the_end_is_undecided_without_a_closing_reply() -> None:
    counts = count_directions(7, travel([Fate()] * 4 + [LOST] * 3, 7).replies)

    assert (counts.forward_lost, counts.reverse_lost, counts.undecided) == (0, 0, 3)


def test_a_lost_closing_packet_does_not_hide_the_direction() -> None:
    counts = count_directions(4, travel([Fate(), Fate(), LOST, LOST, LOST, Fate()], 4).replies)

    assert (counts.forward_lost, counts.reverse_lost, counts.undecided) == (2, 0, 0)


@pytest.mark.parametrize("first", [2**32 - 3, 2**32 - 1, 7_000])
def test_a_counter_may_begin_anywhere_and_wrap(first: int) -> None:
    fates = [Fate(), Fate(), NO_REPLY, Fate(), LOST, Fate(), Fate()]

    counts = count_directions(7, travel(fates, 7, counter=first).replies)

    assert (counts.forward_lost, counts.reverse_lost, counts.undecided) == (1, 1, 0)


def test_a_restart_of_the_reflector_is_no_loss() -> None:
    planted = travel([Fate()] * 10, 10, restart_at_ns=14 * SPACING_NS)

    counts = count_directions(10, planted.replies)

    assert (counts.forward_lost, counts.reverse_lost, counts.undecided) == (0, 0, 0)
    assert counts.reflected == 10


def test_what_was_lost_around_a_restart_is_undecided() -> None:
    fates = [Fate()] * 4 + [LOST] * 2 + [Fate()] * 4
    planted = travel(fates, 10, restart_at_ns=15 * SPACING_NS)

    counts = count_directions(10, planted.replies)

    assert (counts.forward_lost, counts.reverse_lost, counts.undecided) == (0, 0, 2)


def travel_from(start: int, fates: list[Fate], sent: int) -> list[ArrivedReply]:
    """The replies if the reflector is started just before packet `start`."""
    begun = travel(fates[start:], sent)
    later_ns = start * SPACING_NS
    return [
        reply._replace(turn=reply.turn + start, far_received_ns=reply.far_received_ns + later_ns)
        for reply in begun.replies
    ]


@pytest.mark.parametrize("start", [3, 5, 9])
def test_packets_before_a_start_of_the_reflector_are_undecided(start: int) -> None:
    counts = count_directions(10, travel_from(start, [Fate()] * 11, 10))

    assert (counts.forward_lost, counts.reverse_lost, counts.undecided) == (0, 0, start)
    assert counts.reflected == 10 - start


def test_replies_lost_after_a_start_of_the_reflector_are_lost_reverse() -> None:
    fates = [Fate()] * 5 + [NO_REPLY] * 2 + [Fate()] * 2 + [LOST] + [Fate()] * 2

    counts = count_directions(12, travel_from(5, fates, 12))

    assert (counts.forward_lost, counts.reverse_lost, counts.undecided) == (1, 2, 5)


def test_a_reflector_that_stops_and_starts_again_is_no_loss() -> None:
    before = travel([Fate()] * 4, 4).replies
    after = travel_from(9, [Fate()] * 12, 12)

    counts = count_directions(12, before + after)

    assert (counts.forward_lost, counts.reverse_lost, counts.undecided) == (0, 0, 5)


@pytest.mark.parametrize(("loss_ratio", "counted_share"), [(0.01, 1.0), (0.1, 0.99), (0.5, 0.95), (0.9, 0.7)])
def test_random_loss_at_the_beginning_is_loss(
    monkeypatch: pytest.MonkeyPatch, loss_ratio: float, counted_share: float
) -> None:
    random = np.random.default_rng(7)
    bursts = []
    for _ in range(1000):
        fates = [Fate(lost_forward=bool(gone)) for gone in random.random(13) < loss_ratio]
        bursts.append(travel(fates, 10).replies)

    counted = [count_directions(10, replies) for replies in bursts]
    # A reflector that runs all the time.
    monkeypatch.setattr(directions, "FEWEST_BEFORE_A_START", 100)
    expected = [count_directions(10, replies) for replies in bursts]

    lost, truly_lost = (sum(counts.forward_lost or 0 for counts in each) for each in (counted, expected))
    assert counted_share * truly_lost <= lost <= truly_lost


def test_a_packet_that_was_doubled_and_answered_once_is_no_loss() -> None:
    doubled = Fate(delays_forward=(0, 0), lost_reverse=(True, False))

    counts = count_directions(3, travel([Fate(), doubled, Fate()], 3).replies)

    assert (counts.forward_lost, counts.reverse_lost, counts.undecided, counts.reflected) == (0, 0, 0, 4)


def test_no_reply_tells_nothing() -> None:
    counts = count_directions(5, [])

    assert (counts.is_stateful, counts.forward_lost, counts.undecided) == (None, None, 5)
