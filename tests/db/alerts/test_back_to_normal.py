"""A path is called over only while nothing else is wrong with it, and since when only where results tell."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time

import pytest

from monitor.alerts.evidence.words import headline
from monitor.archive.upkeep import freshness
from monitor.overview.mesh_state import load_mesh_state
from monitor.web.pages.status.load import load_status
from monitor.web.templatetags.figures import incident_so_far
from tests.db.planted_faults import DELIVERED, ONSET, Planted, at, between, look_at, plant, site
from tests.facts import lacks

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


def newest_of(path_id, arrived):
    return [row for row in arrived if row.path_id == path_id][-1]


def lost_of(path_id, arrived):
    """The packets lost since shortly before the second fault."""
    since = at(SECOND_S - 10)
    return sum(row.sent - row.received for row in arrived if row.path_id == path_id and row.measured_at >= since)


def statements(incident, now):
    """All that is stated of an open incident and of the mesh."""
    state, status = load_mesh_state(freshness.load(), now), load_status(now)
    public = [each for each in status.open if set(re.findall(r"\w+", each.place)) == PAIR and "RTT" in each.symptom]
    texts = (state.sentence, status.state, headline(incident), str(incident_so_far(incident, now)))
    return state, public, texts


def test_an_rtt_first_seen_back_after_a_gap_was_back_by_then():
    """It ended in the gap."""
    seen = []
    for pair, now, lasting, arrived in looks([]):
        incident = lasting.get("desy ↔ ornl")
        after = [row.measured_at for row in arrived if row.path_id in pair and row.measured_at >= at(GAP_S[1])]
        if incident is None or "RTT back to" not in headline(incident):
            continue
        by = re.search(r"RTT back to \S+ ms (since|by) (\S+) UTC", headline(incident))
        stated = datetime.combine(ONSET.date(), time.fromisoformat(by[2]), UTC)
        assert by[1] == "by", headline(incident)
        assert at(SLOW_S) < stated
        assert stated in {moment.replace(microsecond=0) for moment in after}
        _, (public,), texts = statements(incident, now)
        assert lacks(texts[0], f" ms by {by[2]} UTC") == []
        assert "over by " in texts[3]
        assert (public.is_back_to_normal, public.is_over_by) == (True, True)
        seen.append(stated)
    assert len(seen) > 3


@pytest.mark.parametrize("ratio", [1.0, 0.4])
def test_a_path_with_another_trouble_is_not_called_over(ratio):
    """The site is cut off, or loses packets: from the first burst that is lost as a whole, from so many lost packets
    that the loss is above its threshold for certain, and while another incident has the path, pending or open."""
    seen = {"silent": 0, "lossy": 0, "incident": 0}
    for pair, now, lasting, arrived in looks([Planted(site("ornl"), SECOND_S, lost_ratio=ratio)]):
        slow = [each for each in lasting.values() if {row.rule for row in each.paths.all()} == {"rtt"}]
        if not slow or now < at(SECOND_S):
            continue
        silent = {path_id for path_id in pair if not newest_of(path_id, arrived).received}
        lossy = {path_id for path_id in pair if lost_of(path_id, arrived) >= CERTAIN_LOST}
        in_others = {row.path_id for each in lasting.values() if each is not slow[0] for row in each.paths.all()} & pair
        for kind, found in (("silent", silent), ("lossy", lossy), ("incident", in_others)):
            seen[kind] += found == pair
        others = lossy | in_others
        state, public, texts = statements(slow[0], now)
        assert not state.normal_again & (silent | others), texts
        if silent | others == pair:
            assert not any(re.search("problems? of .* over|problem that is over|over on", text) for text in texts), (
                texts
            )
            assert not any(each.is_back_to_normal for each in public)
        if silent == pair:
            assert "RTT back to" not in texts[2]
            assert "waiting to close" not in texts[3]
            assert lacks(texts[2], "RTT 20", " as of ") == []
            assert [each.over_at for each in public] == [None] * len(public)
    assert seen["lossy"]
    assert (seen["silent"] > 0) == (seen["incident"] > 0) == (ratio == 1.0)
