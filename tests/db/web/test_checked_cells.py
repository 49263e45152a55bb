"""The cell of a path whose loss is being checked: the figure of the check, of the packets of all sizes since it began;
and after it that of the packets since its end."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone
from django.utils.html import strip_tags

from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.evaluate import evaluate
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import Incident
from monitor.archive.upkeep import freshness
from monitor.archive.upkeep.freshness import RecurringWork
from monitor.mesh.models import MeasurementPeriod, Mesh
from monitor.mesh.models import Test as MeshTest
from monitor.web.pages.status.load import load_status
from tests.db.alert_rows import make_mesh
from tests.db.merging import roll_up_raw
from tests.db.web.test_mesh_state_now import NOW, at, plant
from tests.db.web.test_pages_grid import cell
from tests.db.web.test_pages_site import rows
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
LOCAL = {"host": "localhost"}
LOSSY = "slac → ornl"


@pytest.fixture
def paths(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    paths = make_mesh(["slac", "ornl", "fnal"], at(-7200), loss={"above_ratio": 0.01, "window_s": 120})
    MeshTest.objects.update(every_s=10)
    MeasurementPeriod.objects.update(every_s=10)
    freshness.note(RecurringWork.EVALUATION, NOW)
    return paths


@pytest.fixture
def page(client):
    def get(address="/"):
        answer = client.get(address, headers=LOCAL)
        assert answer.status_code == 200, answer.content
        return answer.content.decode()

    return get


def plant_both(paths, lost_of_small, lost_of_large):
    """Ten packets of each size in each cycle of ten minutes; those of one path are lost."""
    for name, path in paths.items():
        is_lossy = name == LOSSY
        plant(path, -600, 0, lost_of_small if is_lossy else lambda _: 0)
        plant(path, -600, 0, lost_of_large if is_lossy else lambda _: 0, packet_bytes=1000)
    roll_up_raw(NOW)


def one_of_small(seconds):
    return int(seconds >= -60)


def three_of_large(seconds):
    return 3 * (seconds >= -60)


def test_a_checked_loss_is_in_the_cell_and_says_which_packets(page, paths):
    """In the last minute 6 of 60 packets of 100 bytes are lost and 18 of 60 of 1000: 24 of 120, at least 14.3% (95%,
    Clopper and Pearson). In ten minutes 6 of 600 of 100 bytes, 1%, at least 0.44%."""
    plant_both(paths, one_of_small, three_of_large)

    style, text, sentence = cell(page(), paths[LOSSY])

    assert (style, text) == ("loss-5", "△~20%")
    facts = "1% over the whole time shown", "6 of 600 packets of 100 bytes lost"
    assert lacks(sentence, *facts, "being checked: 24 of 120 packets of both sizes lost since 12:29:00 UTC") == []


def test_a_checked_loss_is_coloured_by_what_is_proven(page, paths):
    """3 of 20 lost, 15%: at least 4.2% (95%, Clopper and Pearson), as between 2.5 and 5%."""
    plant_both(paths, lambda s: 3 * (s == -10), lambda _: 0)

    style, text, _ = cell(page(), paths[LOSSY])

    assert (style, text) == ("loss-3", "△~15%")


def test_packets_of_a_size_that_lose_more_keep_their_figure(page, paths):
    plant_both(paths, one_of_small, lambda s: 3 * (s >= -600))

    assert cell(page("/?size=1000"), paths[LOSSY])[:2] == ("loss-5", "△30%")


@pytest.mark.parametrize("choice", ["?period=hour", "?metric=rtt"])
def test_other_grids_keep_their_figure(page, paths, choice):
    plant_both(paths, one_of_small, three_of_large)

    text = cell(page(f"/{choice}"), paths[LOSSY])[1]

    assert text in ("△1%", "△20.00 ms")


def test_the_api_and_the_site_have_the_figure_of_the_cell(client, page, paths):
    plant_both(paths, one_of_small, three_of_large)

    answer = client.get("/api/v1/grid?period=now", headers=LOCAL).json()

    (lossy,) = (row for row in answer["cells"] if row["path_id"] == paths[LOSSY].pk)
    assert (lossy["value"], lossy["value_sent"], lossy["value_received"]) == (0.2, 120, 96)
    assert (lossy["value_measured"], lossy["sent"], lossy["received"]) == (0.01, 600, 594)
    (way,) = (row for row in rows(page("/sites/slac/")) if row[0] == "ornl")
    assert way[1] == "△ now ~20%"


def for_five_minutes(seconds):
    return int(-420 <= seconds < -120)


def test_a_loss_that_ended_without_an_incident_is_told_in_its_cell(page, paths):
    """5% of the packets of both sizes for five minutes; none of 240 in the two minutes since, which has a chance of
    4 in a million at 5%."""
    plant_both(paths, for_five_minutes, lambda _: 0)

    html = page()

    style, text, sentence = cell(html, paths[LOSSY])
    assert (style, text) == ("none-lost", "✓0")
    ended = "30 of 600 packets of both sizes lost from 12:23:00 to 12:28:00 UTC, none since"
    assert lacks(sentence, "5% over the whole time shown", "30 of 600 packets of 100 bytes lost", ended) == []
    assert all("lost from" not in cell(html, path)[2] for name, path in paths.items() if name != LOSSY)
    (way,) = (row for row in rows(page("/sites/slac/")) if row[0] == "ornl")
    assert way[1] == "✓ now 0"


def state_sentence(html):
    return " ".join(strip_tags(re.search(r'id="mesh-state".*?</section>', html, re.S)[0].partition(">")[2]).split())


def test_all_pages_tell_a_loss_that_ended_without_an_incident(client, page, paths):
    plant_both(paths, for_five_minutes, lambda _: 0)
    state = client.get("/api/v1/state", headers=LOCAL).json()

    ended, counts = "ended without an incident", "30 of 600 packets lost from 12:23:00 to 12:28:00 UTC, none since"
    said = f"All 6 paths are normal. Loss of {LOSSY} {ended}: {counts}."
    assert (state["sentence"], state["style"], state["normal"]) == (said, "calm", 6)
    html = page()
    assert state_sentence(html) == f"✓ {said}"
    assert f'<a href="/paths/{paths[LOSSY].pk}/">{LOSSY}</a> {ended}' in html
    assert f"✓ Loss {ended}: {counts}" in strip_tags(page(f"/paths/{paths[LOSSY].pk}/"))
    assert ended not in page(f"/paths/{paths['slac → fnal'].pk}/")
    assert load_status(NOW).state == f"All 6 paths are normal. Loss of {LOSSY} {ended} in the last 10 min."


def test_of_many_ended_losses_the_state_has_the_number_and_the_worst(page, paths):
    """30, 60 and 30 of 600 packets lost; one packet of another path, which is no loss."""
    lost = {LOSSY: 1, "ornl → slac": 2, "slac → fnal": 1}
    for name, path in paths.items():
        plant(path, -600, 0, lambda s, name=name: lost.get(name, 0) * for_five_minutes(s) or int(s == -300))
    roll_up_raw(NOW)

    worst = "most on ornl → slac: 60 of 300 packets lost from 12:23:00 to 12:28:00 UTC, none since."
    assert state_sentence(page()) == f"✓ All 6 paths are normal. Loss of 3 paths ended without an incident, {worst}"
    assert "Loss of 3 paths ended without an incident in the last 10 min." in load_status(NOW).state


def test_an_ended_loss_of_the_reverse_path_of_an_incident_is_not_without_one(page, paths):
    """The incident of slac → ornl, of which STAMP would tell the direction, goes on; round trips of ornl → slac, which
    cross it too, lost packets until two minutes ago."""
    for name, path in paths.items():
        lost_of = {LOSSY: lambda s: int(s >= -420), "ornl → slac": for_five_minutes}.get(name, lambda _: 0)
        plant(path, -600, 0, lost_of)
    roll_up_raw(NOW)
    assert "lost from" in cell(page(), paths["ornl → slac"])[2]
    found = RuleFinding("loss", paths[LOSSY].pk, LOSSY, "loss is high", at(-120), figures={"threshold_ratio": 0.01})
    lifecycle.add_findings(LOSSY, [found], at(-60))
    lifecycle.open_if_confirmed(Incident.objects.get().pk, at(-60))

    html = page()

    assert "1 of 6 paths has problems" in state_sentence(html)
    assert "without an incident" not in state_sentence(html)
    assert "lost from" not in cell(html, paths["ornl → slac"])[2]


def test_a_loss_that_ended_on_one_path_of_a_pair_is_told_once_it_ended_on_both(page, paths):
    """6 of 60 packets of the reverse path in the newest minute, which are being checked."""
    lost_of = {LOSSY: for_five_minutes, "ornl → slac": lambda s: int(s >= -60)}
    for name, path in paths.items():
        plant(path, -600, 0, lost_of.get(name, lambda _: 0))
    roll_up_raw(NOW)

    html = page()

    assert "ornl → slac: 6 of 60 packets lost" in state_sentence(html)
    assert "without an incident" not in state_sentence(html)
    assert cell(html, paths[LOSSY])[1] == "✓0"


def test_a_loss_that_ended_before_it_was_proven_is_not_in_the_state(page, paths):
    """3 of 60 packets, of which at least 1.0% is proven (95%, Clopper and Pearson), against a rule of 2%."""
    Mesh.objects.update(alerts={"loss": {"above_ratio": 0.02, "window_s": 120}})
    plant_both(paths, lambda s: int(s in (-420, -410, -400)), lambda _: 0)

    html = page()

    assert "3 of 60 packets of both sizes lost from 12:23:00 to 12:23:30 UTC" in cell(html, paths[LOSSY])[2]
    assert state_sentence(html) == "✓ All 6 paths are normal."


def test_a_loss_that_may_go_on_is_not_marked_as_ended(page, paths):
    """None of 40 since, which has a chance of 13% at 5%."""
    plant_both(paths, lambda s: int(-420 <= s < -20), lambda _: 0)

    _, text, sentence = cell(page(), paths[LOSSY])

    assert text.startswith("△")
    assert "lost from" not in sentence
    assert "without an incident" not in state_sentence(page())


def test_a_packet_lost_after_an_ended_loss_is_in_the_figure(page, paths):
    """One of the 240 packets since the end was lost: the lower 95% bound of that loss is 0.02%."""
    plant_both(paths, lambda s: int(-420 <= s < -120 or s == -30), lambda _: 0)

    style, text, sentence = cell(page(), paths[LOSSY])

    assert (style, text) == ("loss-0", "✓~0.4%")
    assert "30 of 600 packets of both sizes lost from 12:23:00 to 12:28:00 UTC, 1 since" in sentence


def test_a_loss_that_ended_before_the_ten_minutes_is_told_no_more(page, paths):
    for name, path in paths.items():
        lost_of = (lambda s: int(-1200 <= s < -620 or s == -30)) if name == LOSSY else lambda _: 0
        plant(path, -1500, 0, lost_of)
    roll_up_raw(NOW)

    html = page()

    _, text, sentence = cell(html, paths[LOSSY])
    assert text == "0.17%"
    assert "lost from" not in sentence
    assert state_sentence(html) == "✓ All 6 paths are normal."


def test_an_incident_that_ended_has_its_own_words(page, paths):
    for name, path in paths.items():
        plant(path, -1800, 0, (lambda s: 3 * (-420 <= s < -120)) if name == LOSSY else lambda _: 0)
    roll_up_raw(NOW)
    for seconds in range(-300, 0, 30):
        evaluate(at(seconds))

    html = page()

    sentence = cell(html, paths[LOSSY])[2]
    assert "incident" in sentence
    assert "lost from" not in sentence
    assert "without an incident" not in state_sentence(html)
