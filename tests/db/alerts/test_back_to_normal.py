"""A path is called over only while nothing else is wrong with it, and since when only where results tell."""

from __future__ import annotations

import pytest

from monitor.alerts.incidents import queries
from monitor.archive.upkeep import freshness
from monitor.overview.mesh_state import load_mesh_state
from monitor.present import read
from monitor.present.conditions import Condition
from monitor.present.track import Signal
from monitor.web.pages.status.load import load_status
from tests.db.planted_faults import DELIVERED, Planted, at, between, look_at, plant, site

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]

RULES = {"loss": {"above_ratio": 0.01, "window_s": 600}, "unreachable": {}, "rtt": {}}
PAIR = {"desy", "ornl"}
SLOW_S, GAP_S = 240, (225, 320)
"""The RTT of the pair is longer for so long; its results of this time are missing."""
SECOND_S = 345
CERTAIN_LOST = 5
"""Of 60 packets at most: 3.5% or more with 95% confidence, where 1% is the threshold."""
LOOKS_S = (170, 190, 210, *range(300, 420, 10))


def looks(second):
    """Each look after the gap: the paths of the pair, the lasting incidents, and the bursts that have arrived."""
    slow = Planted(between(*PAIR), 0.0, lasts_s=SLOW_S, delay_ms=60.0)
    paths, rows = plant([slow, *second], 420, 2, **RULES)
    pair = {path.pk for name, path in paths.items() if set(name.split(" → ")) == PAIR}
    kept = [row for row in rows if row.path_id not in pair or not at(GAP_S[0]) <= row.measured_at < at(GAP_S[1])]
    for at_s, now, lasting in look_at(kept, LOOKS_S):
        if at_s >= GAP_S[1]:
            yield pair, now, lasting, [row for row in kept if row.measured_at < now - DELIVERED]


def is_silent(path_id, arrived):
    """Whether the two newest bursts of a path were lost as a whole."""
    return not any(row.received for row in [row for row in arrived if row.path_id == path_id][-2:])


def lost_of(path_id, arrived):
    """The packets lost since shortly before the second fault."""
    since = at(SECOND_S - 10)
    return sum(row.sent - row.received for row in arrived if row.path_id == path_id and row.measured_at >= since)


def test_an_rtt_that_ended_in_a_gap_is_normal_after_it():
    seen = 0
    for pair, now, lasting, _ in looks([]):
        if now < at(GAP_S[1] + 40):
            continue
        tracks = [path.track(Signal.RTT) for path in read.load(pair).values()]
        assert {track.condition for track in tracks} == {Condition.NORMAL}, now
        for incident in lasting.values():
            (public,) = load_status(now).open
            assert public.over_since == queries.incident_with_paths(incident.pk).over_since
            assert load_mesh_state(freshness.load(), now).tally.with_problems == 0
            seen += 1
    assert seen > 3


@pytest.mark.parametrize("ratio", [1.0, 0.4])
def test_a_path_with_another_trouble_is_not_called_normal(ratio):
    """The site is cut off, or loses packets: from the first burst that is lost as a whole, from so many lost packets
    that the loss is above its threshold for certain, and while another incident has the path, pending or open."""
    seen = {"lossy": 0, "incident": 0}
    for pair, now, lasting, arrived in looks([Planted(site("ornl"), SECOND_S, lost_ratio=ratio)]):
        if now < at(SECOND_S):
            continue
        silent = {path_id for path_id in pair if is_silent(path_id, arrived)}
        lossy = {path_id for path_id in pair if lost_of(path_id, arrived) >= CERTAIN_LOST}
        in_others = {
            row.path_id
            for each in lasting.values()
            if {row.rule for row in each.paths.all()} != {"rtt"}
            for row in each.paths.all()
        } & pair
        for kind, found in (("lossy", lossy), ("incident", in_others)):
            seen[kind] += found == pair
        present = read.load(pair)
        if lossy == pair and (ratio < 1.0 or silent == pair):
            assert {path.condition.is_trouble for path in present.values()} == {True}, now
    assert seen["lossy"]
    assert (seen["incident"] > 0) == (ratio == 1.0)
