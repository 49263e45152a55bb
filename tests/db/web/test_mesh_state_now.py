"""The sentence on the mesh is of now: a loss that is over is not checked, newer data that is overdue is not normal."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone
from django.utils.html import strip_tags

from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence.words import brief, headline
from monitor.alerts.incidents import lifecycle, queries
from monitor.archive.models import Burst
from monitor.archive.queries.metrics import Metric
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.mesh.models import MeasurementPeriod
from monitor.mesh.models import Test as MeshTest
from monitor.overview.grid import GridPeriod, load_grid
from monitor.overview.mesh_state import load_mesh_state
from monitor.web.pages.grid.cells import sentence
from monitor.web.pages.status.load import load_status
from monitor.web.templatetags.figures import incident_so_far
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)


def at(seconds):
    return NOW + timedelta(seconds=seconds)


@pytest.fixture
def paths(monkeypatch):
    return paths_of_three_sites(monkeypatch)


def paths_of_three_sites(monkeypatch):
    """Paths with cycles of 10 s, whose incidents open at once."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    paths = make_mesh(["slac", "ornl", "fnal"], at(-7200), loss={"above_ratio": 0.01, "window_s": 120}, rtt={})
    MeshTest.objects.update(every_s=10)
    MeasurementPeriod.objects.update(every_s=10)
    return paths


def plant(path, since_s, until_s, lost_of=lambda _: 0, rtts_of=lambda _: [20.0] * 10, packet_bytes=100):
    """Cycles of 10 s with ten packets, a second apart."""
    rows = []
    for seconds in range(since_s, until_s, 10):
        lost = lost_of(seconds)
        rows.append(
            Burst(
                path_id=path.pk,
                packet_bytes=packet_bytes,
                measured_at=at(seconds),
                outcome="measured",
                sent=10,
                received=10 - lost,
                duplicates=0,
                reordered=0,
                during_test=False,
                rtts_ms=[None] * lost + rtts_of(seconds)[lost:],
            )
        )
    copy_rows(rows)


def one_in_ten(seconds):
    """10% for two minutes, a packet of each cycle."""
    return int(seconds >= -120)


def state_at(seconds):
    freshness.note(RecurringWork.EVALUATION, at(seconds))
    return load_mesh_state(freshness.load(), at(seconds))


def test_an_outage_that_is_over_is_not_being_checked(paths):
    """24 s, ended 40 s ago: more than the rule allows in half an hour, and nothing since."""
    for name, path in paths.items():
        is_cut = name in ("slac → ornl", "ornl → slac")
        plant(path, -1800, 0, lambda s, is_cut=is_cut: 10 if is_cut and -80 <= s < -60 else 0)

    state = state_at(0)

    assert (state.title, state.style) == ("All 6 paths are normal.", "calm")
    assert "Loss of 2 paths ended without an incident" in state.rest
    assert "20 of 20 packets lost from 12:28:40 to 12:29:00 UTC, none since." in state.rest


@pytest.mark.parametrize("ago_s", [60, 210, 400, 590])
def test_a_short_loss_that_is_over_is_not_being_checked(paths, ago_s):
    """50% for two cycles, and no packet lost since."""
    lost = {-ago_s - 20: 6, -ago_s - 10: 4}
    for name, path in paths.items():
        plant(path, -ago_s - 360, 0, lambda s, name=name: lost.get(s, 0) if name == "slac → ornl" else 0)

    state = state_at(0)

    assert (state.title, state.style) == ("All 6 paths are normal.", "calm")
    times = f"from {at(-ago_s - 20):%H:%M:%S} to {at(-ago_s):%H:%M:%S} UTC"
    assert state.rest == f"Loss of slac → ornl ended without an incident: 10 of 20 packets lost {times}, none since."


def test_a_single_lost_packet_is_no_loss(paths):
    for name, path in paths.items():
        plant(path, -300, 0, lambda s, name=name: int(name == "slac → ornl" and s == -60))

    assert state_at(0).sentence == "All 6 paths are normal."


def test_paths_that_are_checked_are_named(paths):
    lossy = ("slac → ornl", "slac → fnal", "ornl → slac", "fnal → slac")
    for name, path in paths.items():
        plant(path, -600, 0, lambda s, name=name: 3 if name in lossy and s >= -60 else 0)

    state = state_at(0)

    facts = "4 paths with loss above the alert threshold, being checked ("
    assert facts in state.title
    assert " and 1 more)" in state.title
    assert sum(name in state.title for name in lossy) == 3
    assert "2 normal" in state.rest
    assert "slac → " not in load_status(at(0)).state


def test_the_names_of_checked_paths_are_links_to_their_pages(client, paths, monkeypatch):
    lossy = ("slac → ornl", "slac → fnal", "ornl → slac")
    for name, path in paths.items():
        plant(path, -600, 0, lambda s, name=name: 3 if name in lossy and s >= -60 else 0)
    freshness.note(RecurringWork.EVALUATION, NOW)
    monkeypatch.setattr(timezone, "now", lambda: NOW)

    for address in ("/", "/incidents/", "/sites/"):
        html = client.get(address, headers={"host": "localhost"}).content.decode()
        [sentence_html] = re.findall(r'<section class="mesh-state.*?</section>', html, re.DOTALL)
        links = {
            name: int(path_id) for path_id, name in re.findall(r'<a href="/paths/(\d+)/">(.*?)</a>', sentence_html)
        }
        assert links == {name: paths[name].pk for name in lossy}, address
        assert " ".join(strip_tags(sentence_html).split()).endswith(state_at(0).sentence)


def check_on(client, path):
    """The top of the page of a path, as text."""
    html = client.get(f"/paths/{path.pk}/", headers={"host": "localhost"}).content.decode()
    return " ".join(strip_tags(re.search(r'<div id="alarm" data-live>.*?</div>', html, re.DOTALL)[0]).split())


def test_a_path_page_says_what_is_being_checked_on_its_path(client, paths, monkeypatch):
    """12 of 120 packets lost, a dead path, one without newer data, and three that are normal."""
    ends = {"fnal → ornl": -50}
    lost = {"slac → ornl": one_in_ten, "slac → fnal": lambda s: 10 * (s >= -50)}
    for name, path in paths.items():
        plant(path, -900, ends.get(name, 0), lost.get(name, lambda _: 0))
    freshness.note(RecurringWork.EVALUATION, NOW)
    monkeypatch.setattr(timezone, "now", lambda: NOW)

    checks = {name: check_on(client, path) for name, path in paths.items()}

    title, loss = state_at(0).title, "12 of 120 packets lost since 12:28:00 UTC"
    silent = re.search(r"without replies (since 12:29:\d\d UTC)", title)[1]
    assert lacks(title, "slac → fnal", f"slac → ornl: {loss}", "since 12:29:00 UTC") == []
    assert checks == {
        **dict.fromkeys(paths, ""),
        "slac → ornl": f"? Loss above the alert threshold, being checked: {loss}",
        "slac → fnal": f"? Without replies {silent}, being checked",
        "fnal → ornl": "? Without newer data since 12:29:00 UTC",
    }


def test_a_path_page_says_no_check_while_the_rules_are_not_evaluated(client, paths, monkeypatch):
    for path in paths.values():
        plant(path, -900, 0, one_in_ten)
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    freshness.note(RecurringWork.EVALUATION, at(-3600))
    assert check_on(client, paths["slac → ornl"]) == ""

    freshness.note(RecurringWork.EVALUATION, NOW)

    assert "being checked" in check_on(client, paths["slac → ornl"])


def test_an_outage_is_told_before_an_incident_that_is_over(paths):
    for name, path in paths.items():
        is_over, is_cut = name == "fnal → ornl", name in ("slac → ornl", "ornl → slac")

        def lost_of(seconds, is_over=is_over, is_cut=is_cut):
            return 4 if is_over and -300 <= seconds < -100 else 10 if is_cut and seconds >= -40 else 0

        plant(path, -1500, 0, lost_of)
    evaluate(at(-100))
    evaluate(at(-25))

    state = state_at(0)
    assert (
        lacks(
            load_status(at(0)).state,
            "2 paths without replies since ",
            "1 open incident: the problem of 1 of 6 paths is over",
        )
        == []
    )

    order = ["2 paths without replies since ", "The problem of 1 of 6 paths is over"]
    assert [fact in state.sentence for fact in order] == [True, True], state.sentence
    assert state.sentence.index(order[0]) < state.sentence.index(order[1])
    assert state.title.startswith(order[0])


def test_the_status_page_tells_an_outage_beside_an_incident(paths):
    """An incident of a loss that goes on, and two paths that do not answer since 50 s ago."""
    for name, path in paths.items():
        is_lossy, is_cut = name == "fnal → ornl", name in ("slac → ornl", "ornl → slac")

        def lost_of(seconds, is_lossy=is_lossy, is_cut=is_cut):
            return 4 if is_lossy and seconds >= -300 else 10 if is_cut and seconds >= -40 else 0

        plant(path, -1500, 0, lost_of)
    evaluate(at(-100))
    evaluate(at(-25))
    freshness.note(RecurringWork.EVALUATION, at(0))

    said = load_status(at(0)).state

    assert said.startswith("1 open incident: 1 of 6 paths has problems. 2 paths without replies since ")
    assert "slac" not in said


def test_paths_whose_newer_data_is_overdue_are_not_normal(paths):
    for path in paths.values():
        plant(path, -600, -50)

    assert state_at(-20).sentence == "All 6 paths are normal."
    late = state_at(0)
    assert "6 paths without newer data since 12:29:00 UTC" in late.sentence
    assert (late.checked.paths, late.style) == (0, "unknown")
    assert " normal" not in late.sentence


def test_pings_set_aside_for_our_own_tests_are_no_missing_data(paths):
    """All newer bursts of two paths were sent during a throughput test; those of a third did not arrive."""
    excluded, missing = ("slac → ornl", "ornl → slac"), "fnal → slac"
    for name, path in paths.items():
        plant(path, -600, -50 if name == missing else 0)
        if name in excluded:
            Burst.objects.filter(path_id=path.pk, measured_at__gt=at(-60)).update(during_test=True)

    state = state_at(0)

    excluded_text = "2 paths with newest pings that do not count, sent during throughput tests"
    facts = "1 path without newer data since 12:29:00 UTC", excluded_text
    assert lacks(state.title, *facts) == []
    assert (state.rest, state.style, state.checked.not_normal) == ("3 normal.", "unknown", 3)
    grid = load_grid(Metric.LOSS, GridPeriod.NOW, at(0))
    said = {f"{path.source} → {path.destination}": sentence(grid, path) for path in grid.figures}
    for name in excluded:
        assert lacks(said[name], "as of 12:29:00 UTC", "during throughput tests, excluded") == []
        assert "no newer data" not in said[name]
    assert "no newer data" in said[missing]
    # Later those during the test are old too, and newer ones overdue.
    assert lacks(state_at(60).sentence, "6 paths without newer data") == []


def test_an_incident_without_newer_data_has_no_figure_of_now(paths):
    """The newest packets began a minute ago, six cycles."""
    for name, path in paths.items():
        plant(path, -1500, -50, lambda s, name=name: 3 if name == "slac → ornl" and s >= -300 else 0)
    for seconds in (-70, -40):
        evaluate(at(seconds))
    (incident,) = queries.open_incidents()
    assert re.search(r"loss [^%]*% now", headline(incident))
    evaluate(at(0))

    (incident,) = queries.open_incidents()
    texts = (headline(incident), brief(incident, at(0)), state_at(0).sentence)

    for text in texts:
        assert re.search(r"loss [^%]*% as of 12:29:00 UTC", text), text
        assert " now" not in text, text
    assert "no newer data since" in incident_so_far(incident, at(0))


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

    assert f"RTT back to 20.02 ms since {since} UTC" in headline(incident)


def test_a_longer_rtt_is_being_checked_until_its_incident_opens(paths, monkeypatch):
    """100 ms more both ways for 50 s; the rule needs 14 bursts."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 30)
    for name, path in paths.items():
        is_longer = name in ("slac → ornl", "ornl → slac")

        def rtts_of(seconds, is_longer=is_longer):
            return [120.0 if is_longer and seconds >= -50 else 20.0] * 10

        plant(path, -900, 200, rtts_of=rtts_of)

    evaluate(at(-30))
    assert state_at(-30).sentence == "All 6 paths are normal."
    evaluate(at(-10))
    state = state_at(-10)
    names = "slac → ornl: 20 → 120 ms, ornl → slac: 20 → 120 ms"
    assert state.title == f"No open incidents; 2 paths with a longer RTT, being checked ({names})."
    assert state.rest == "4 normal."
    assert (state.style, state.checked.paths) == ("unknown", 2)
    assert lacks(load_status(at(-10)).state, "2 paths with a longer RTT") == []
    assert "slac" not in load_status(at(-10)).state
    titles = []
    for seconds in range(0, 200, 10):
        evaluate(at(seconds))
        titles.append(state_at(seconds).title)
    pending = [title for title in titles if "2 paths being checked (" in title]
    assert pending
    for title in pending:
        for name in ("slac → ornl", "ornl → slac"):
            assert lacks(title, f"{name}: RTT 20 → 120 ms since 12:29:1") == []
    state = state_at(190)
    assert "being checked" not in state.sentence
    assert lacks(state.title, "2 of 6 paths have problems", "120 ms") == []


def test_a_longer_rtt_that_is_over_is_normal_again(paths):
    for path in paths.values():
        plant(path, -900, 100, rtts_of=lambda s: [120.0 if -50 <= s < -10 else 20.0] * 10)

    evaluate(at(-10))
    assert "6 paths with a longer RTT, being checked" in state_at(-10).title
    evaluate(at(10))
    assert state_at(10).sentence == "All 6 paths are normal."


def loss_between(text, percent, excluded):
    """Whether the loss in a text, a figure or an interval, may be `percent` but not `excluded`."""
    low, high = re.search(r"loss (\d+)(?: to (\d+))?%", text).groups()
    return int(low) <= percent <= int(high or low) and not int(low) <= excluded <= int(high or low)


def test_the_figure_of_an_incident_is_without_paths_that_have_no_newer_data(paths):
    """40% on both paths until ornl stops, then 80% on the other: the mean of all would be no loss of any time."""
    ends = {"slac → ornl": 400, "ornl → slac": 60}
    for name, path in paths.items():
        lost = (lambda s: 0 if s < -100 else 4 if s < 60 else 8) if name in ends else lambda _: 0
        plant(path, -1500, ends.get(name, 400), lost)
    titles = {}
    for seconds in (-40, 0, 40, 100, 200, 300, 380):
        evaluate(at(seconds))
        (incident,) = queries.open_incidents()
        titles[seconds] = headline(incident)

    assert loss_between(titles[40], 40, 60), titles
    assert loss_between(titles[380], 80, 60), titles
    assert loss_between(brief(incident, at(380)), 80, 60)
    assert lacks(titles[380], "(no newer data on ornl → slac)") == []
    assert "as of" not in titles[380]


def test_a_figure_as_of_a_time_stays_the_same(paths):
    """2 of 10 lost in each cycle but the last six, which lose 6: the newest packets to be told are fewer with time."""
    for name, path in paths.items():
        is_lossy = name in ("slac → ornl", "ornl → slac")
        end_s = 5 if name == "slac → ornl" else -25

        def lost_of(seconds, is_lossy=is_lossy):
            return 0 if not is_lossy or seconds < -400 else 2 if seconds < -60 else 4

        plant(path, -1500, end_s, lost_of)
    figures: dict[str, set[str]] = {}
    for seconds in (-300, -100, *range(0, 500, 20)):
        evaluate(at(seconds))
        (incident,) = queries.open_incidents()
        said = re.search(r"loss (.*%) as of (\S+) UTC", headline(incident))
        if said:
            figures.setdefault(said[2], set()).add(said[1])

    assert [(time, len(said)) for time, said in figures.items()] == [("12:30:00", 1)], figures
