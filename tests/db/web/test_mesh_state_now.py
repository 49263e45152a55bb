"""The sentence on the mesh is of now: a loss that is over is not checked, newer data that is overdue is not normal."""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial

import pytest
from django.utils import timezone
from django.utils.html import strip_tags

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence.words import headline
from monitor.alerts.incidents import lifecycle, queries
from monitor.archive.models import Burst
from monitor.archive.upkeep import freshness
from monitor.overview.mesh_state import load_mesh_state
from monitor.present import read
from monitor.present.conditions import Condition
from monitor.web.pages.status.load import load_status
from tests.db import planted_cycles
from tests.db.finding_levels import level_of
from tests.db.planted_cycles import NOW, at, paths_of_three_sites
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
plant = partial(planted_cycles.plant, is_scattered=True)


@pytest.fixture
def paths(monkeypatch):
    return paths_of_three_sites(monkeypatch)


def present(paths):
    """What these paths are like, by name."""
    by_id = read.load([path.pk for path in paths.values()])
    return {name: by_id[path.pk] for name, path in paths.items()}


def one_in_ten(seconds):
    """10% for two minutes, a packet of each cycle."""
    return int(seconds >= -120)


def state_at(seconds):
    """The state by an evaluation at this time."""
    evaluate(at(seconds))
    return load_mesh_state(freshness.load(), at(seconds))


def test_an_outage_that_is_over_is_not_being_checked(paths):
    """Two bursts, ended a minute ago: fewer packets than the rule needs."""
    for name, path in paths.items():
        plant(path, -1800, 0, lambda s, name=name: 10 if name == "slac → ornl" and -80 <= s < -60 else 0)

    state = state_at(0)

    assert (state.tally.normal + state.tally.over, state.tally.checked) == (6, 0), state.sentence


@pytest.mark.parametrize("ago_s", [210, 400, 590])
def test_a_short_loss_that_is_over_is_not_being_checked(paths, ago_s):
    """50% for two cycles, and no packet lost since."""
    lost = {-ago_s - 20: 6, -ago_s - 10: 4}
    for name, path in paths.items():
        plant(path, -ago_s - 360, 0, lambda s, name=name: lost.get(s, 0) if name == "slac → ornl" else 0)

    state = state_at(0)

    assert (state.title, state.style) == ("All 6 paths are normal.", "calm")


def test_a_single_lost_packet_is_no_loss(paths):
    for name, path in paths.items():
        plant(path, -300, 0, lambda s, name=name: int(name == "slac → ornl" and s == -60))

    assert state_at(0).sentence == "All 6 paths are normal."


def test_the_worst_path_that_is_checked_is_named_with_a_link(client, paths, monkeypatch):
    """30% on four paths for a minute, not proven yet; one of them is dead since."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 60)
    lossy, dead = ("slac → ornl", "slac → fnal", "ornl → slac", "fnal → slac"), "slac → fnal"
    for name, path in paths.items():
        plant(path, -600, 0, lambda s, name=name: 0 if name not in lossy or s < -60 else 10 if name == dead else 3)

    state = state_at(0)
    monkeypatch.setattr(timezone, "now", lambda: NOW)

    assert lacks(state.sentence, "4 of 6 paths are being checked: fnal ↔ slac dead since 12:28:", "2 normal") == []
    assert "slac → " not in load_status(at(0)).state
    for address in ("/", "/incidents/", "/sites/"):
        html = client.get(address, headers={"host": "localhost"}).content.decode()
        [sentence_html] = re.findall(r'<section class="mesh-state.*?</section>', html, re.DOTALL)
        links = {
            name: int(path_id) for path_id, name in re.findall(r'<a href="/paths/(\d+)/">(.*?)</a>', sentence_html)
        }
        assert links == {"fnal ↔ slac": paths[dead].pk}, address
        assert " ".join(strip_tags(sentence_html).split()).endswith(state.sentence)


def test_an_outage_is_told_before_an_incident_that_is_over(paths, monkeypatch):
    for name, path in paths.items():
        is_over, is_cut = name == "fnal → ornl", name in ("slac → ornl", "ornl → slac")

        def lost_of(seconds, is_over=is_over, is_cut=is_cut):
            return 4 if is_over and -300 <= seconds < -100 else 10 if is_cut and seconds >= -40 else 0

        plant(path, -1500, -2, lost_of)
    evaluate(at(-100))
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 60)

    state = state_at(0)

    assert lacks(state.title, "2 of 6 paths are being checked: ", "dead since 12:29:1") == []
    assert lacks(state.rest, "1 over, waiting to close", "3 normal") == []
    assert lacks(load_status(at(0)).state, "1 open incident", "1 over, waiting to close", "2 being checked") == []


def test_the_status_page_tells_an_outage_beside_an_incident(paths, monkeypatch):
    """An incident of a loss that goes on, and two paths that do not answer since 50 s ago."""
    for name, path in paths.items():
        is_lossy, is_cut = name == "fnal → ornl", name in ("slac → ornl", "ornl → slac")

        def lost_of(seconds, is_lossy=is_lossy, is_cut=is_cut):
            return 4 if is_lossy and seconds >= -300 else 10 if is_cut and seconds >= -40 else 0

        plant(path, -1500, 0, lost_of)
    evaluate(at(-100))
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 60)
    evaluate(at(0))

    said = load_status(at(0)).state

    assert lacks(said, "1 open incident: 1 of 6 paths has a problem.", "2 being checked") == []
    assert "slac" not in said


def test_paths_whose_newer_data_is_overdue_are_not_normal(paths):
    for path in paths.values():
        plant(path, -600, -50)

    assert state_at(-30).sentence == "All 6 paths are normal."
    late = state_at(0)
    assert lacks(late.sentence, "6 of 6 paths have no newer results.") == []
    assert (late.tally.checked, late.tally.overdue, late.style) == (0, 6, "unknown")


def test_pings_set_aside_for_our_own_tests_are_no_missing_data(paths):
    """All newer bursts of two paths were sent during a throughput test; those of a third did not arrive."""
    excluded, missing = ("slac → ornl", "ornl → slac"), "fnal → slac"
    for name, path in paths.items():
        plant(path, -600, -50 if name == missing else 0)
        if name in excluded:
            Burst.objects.filter(path_id=path.pk, measured_at__gt=at(-60)).update(during_test=True)

    state = state_at(0)

    conditions = {name: path.condition for name, path in present(paths).items()}
    assert conditions == {
        **dict.fromkeys(paths, Condition.NORMAL),
        **dict.fromkeys(excluded, Condition.OWN_TESTS),
        missing: Condition.OVERDUE,
    }
    assert (state.tally.overdue, state.tally.own_tests, state.tally.normal) == (1, 2, 3)
    assert state.sentence == "1 of 6 paths has no newer results. 3 normal, 2 under an own throughput test."
    # Later those during the test are old too, and newer ones overdue.
    assert state_at(60).tally.overdue == 6


def test_own_tests_alone_are_no_problem(paths):
    for name, path in paths.items():
        plant(path, -600, 0)
        if name == "slac → ornl":
            Burst.objects.filter(path_id=path.pk, measured_at__gt=at(-60)).update(during_test=True)

    state = state_at(0)

    said = "No path is known to have a problem: 5 normal, 1 under an own throughput test."
    assert (state.sentence, load_status(at(0)).state) == (said, said)


def test_an_incident_without_newer_data_has_no_figure_of_now(paths):
    """The newest packets began a minute ago, six cycles."""
    for name, path in paths.items():
        plant(path, -1500, -50, lambda s, name=name: 3 if name == "slac → ornl" and s >= -300 else 0)
    for seconds in (-70, -40):
        evaluate(at(seconds))
    (incident,) = queries.open_incidents()
    assert lacks(headline(incident), "ornl ↔ slac loses", "30% since 12:25:0") == []

    state = state_at(0)

    (incident,) = queries.open_incidents()
    for text in (headline(incident), state.sentence):
        assert lacks(text, "ornl ↔ slac lost", "30% as of 12:29:00 UTC") == []
    assert (state.tally.with_problems, state.tally.over) == (1, 0)
    (level,) = map(level_of, incident.paths.all())
    assert (level.now, level.newest_at) == (None, at(-60))


@pytest.mark.parametrize(("mixed", "since"), [(3, "12:29:20"), (0, "12:29:10")])
def test_an_rtt_is_back_since_a_burst_that_is_well_entirely(paths, mixed, since):
    """The delay ends 3 s after the begin of a burst, or with it."""
    for name, path in paths.items():
        is_slow = name in ("slac → ornl", "ornl → slac")

        def rtts_of(seconds, is_slow=is_slow):
            slow = 10 if -600 <= seconds < -50 else mixed if seconds == -50 else 0
            return [120.0 if is_slow and number < slow else 20.0 + number % 3 / 50 for number in range(10)]

        plant(path, -3000, 0, rtts_of=rtts_of)
    for seconds in (-700, -400, -300, 0):
        evaluate(at(seconds))

    (incident,) = queries.open_incidents()

    assert lacks(headline(incident), "ornl ↔ slac: RTT normal again (20", "since 12:29:", "120 ms from 12:20:0") == []
    assert abs((incident.over_since - datetime.fromisoformat(f"2026-11-21T{since}Z")).total_seconds()) <= 10.0


def test_a_longer_rtt_is_being_checked_until_its_incident_opens(paths, monkeypatch):
    """100 ms more both ways for 50 s; the rule needs 14 bursts."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 30)
    for name, path in paths.items():
        is_longer = name in ("slac → ornl", "ornl → slac")

        def rtts_of(seconds, is_longer=is_longer):
            return [120.0 if is_longer and seconds >= -50 else 20.0] * 10

        plant(path, -900, 200, rtts_of=rtts_of)

    assert state_at(-40).sentence == "All 6 paths are normal."
    state = state_at(0)
    facts = "2 of 6 paths are being checked: ", "RTT 120 ms since 12:29:1", "(was 20 ms)"
    assert lacks(state.title, *facts) == []
    assert (state.rest, state.style, state.tally.checked) == ("4 normal.", "unknown", 2)
    assert lacks(load_status(at(0)).state, "2 of 6 paths are being checked") == []
    assert "slac" not in load_status(at(0)).state
    states = {seconds: state_at(seconds) for seconds in range(10, 200, 10)}
    for seconds, state in states.items():
        assert state.tally.checked + state.tally.with_problems == 2, (seconds, state.sentence)
        assert lacks(state.title, "120 ms since 12:29:1") == [], (seconds, state.title)
    assert state.tally.with_problems == 2


def test_a_longer_rtt_that_is_over_is_normal_again(paths):
    for path in paths.values():
        plant(path, -900, 100, rtts_of=lambda s: [120.0 if -50 <= s < -10 else 20.0] * 10)

    assert state_at(-10).tally.checked == 6
    assert state_at(20).sentence == "All 6 paths are normal."


def test_the_figure_of_an_incident_is_without_paths_that_have_no_newer_data(paths):
    """40% on both paths until ornl stops, then 80% on the other: the mean of all would be no loss of any time."""
    ends = {"slac → ornl": 400, "ornl → slac": 60}
    for name, path in paths.items():
        lost = (lambda s: 0 if s < -100 else 4 if s < 60 else 8) if name in ends else lambda _: 0
        plant(path, -1500, ends.get(name, 400), lost)
    levels, titles = {}, {}
    for seconds in (-40, 0, 40, 100, 200, 300, 380):
        evaluate(at(seconds))
        (incident,) = queries.open_incidents()
        titles[seconds] = headline(incident)
        levels[seconds] = {str(row.path): level.now for row in incident.paths.all() if (level := level_of(row))}

    assert lacks(titles[40], "40%") == []
    assert lacks(titles[380], "80%") == [], titles
    assert levels[40] == {name: pytest.approx(0.4, abs=0.05) for name in ends}
    assert levels[380] == {"slac → ornl": pytest.approx(0.8, abs=0.05), "ornl → slac": None}
