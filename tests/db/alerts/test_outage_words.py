"""A site that is down is called so from the first minute, and a centre that nobody reaches is no fault of a site."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from django.test import Client

from monitor.agents.models import AgentHealth
from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather, words
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.models import Notification
from monitor.alerts.notify import incident_text
from monitor.archive.models import Burst
from monitor.archive.queries.metrics import Metric
from monitor.mesh.models import Measurement, Site
from monitor.mesh.models import Test as MeshTest
from monitor.overview.grid import GridPeriod, load_grid
from monitor.overview.path_figures import FigureState
from monitor.present.conditions import Condition
from monitor.present.track import Signal
from monitor.web.pages.grid.cells import cell_text, sentence
from monitor.web.pages.status.load import load_status
from tests.db.alert_rows import make_bursts, make_mesh
from tests.db.copied_rows import copy_rows
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]
ONSET = datetime(2026, 11, 21, 10, 0, 10, tzinfo=UTC)
CYCLE = timedelta(seconds=10)
BEFORE = 60
LAST_PACKET = timedelta(seconds=9)
"""After the first of its burst: ten packets a second apart."""
LAST_REPLY = f"{ONSET - CYCLE + LAST_PACKET:%Y-%m-%d %H:%M:%S} UTC"


def mesh(*names, **rules):
    paths = make_mesh(names, ONSET - timedelta(hours=2), **rules)
    MeshTest.objects.update(every_s=10)
    return paths


def plant(paths, of_cern, of_others=()):
    """Ten minutes without loss on all paths, then these lost packets of ten on the paths of cern and on the others."""
    for name, path in paths.items():
        lost = of_cern if "cern" in name else of_others or [0] * len(of_cern)
        make_bursts(path, [0] * BEFORE + list(lost), ONSET - BEFORE * CYCLE, every_s=10)


def at(seconds):
    return ONSET + timedelta(seconds=seconds)


@pytest.fixture
def dead_site():
    """The paths of cern, all lost from the onset on."""
    rules = {"loss": {"above_ratio": 0.01, "window_s": 600}, "unreachable": {}}
    paths = mesh("slac", "cern", "nersc", **rules)
    plant(paths, [10] * 24)
    return paths


def test_a_dead_site_is_never_called_partial_loss(dead_site, settings):
    settings.NOTIFY_URLS = ["ops=webhook+http://127.0.0.1:9/hook"]
    for seconds in (33, 63, 123):
        evaluate(at(seconds))
    (incident,) = queries.open_incidents()
    gather.store_facts(incident, at(123))
    title, cause = words.headline(incident), evidence(incident, at(123)).likely

    assert title == f"cern: 4 of 4 paths dead since {LAST_REPLY.partition(' ')[2]}"
    assert lacks(cause, "Interrupted", LAST_REPLY, "both ends") == []
    texts = [title, cause]
    assert [word for word in ("RTT unchanged", "policer", " now", "peak") if any(word in text for text in texts)] == []
    assert [public.symptom for public in load_status(at(130)).open] == ["no reply"]

    Notification.objects.update(state="sent", attempts=1)
    for seconds in (200, 210, 220):
        evaluate(at(seconds))
    (incident,) = queries.open_incidents()
    sent = Notification.objects.order_by("pk").values_list("change", "symptom", "channel")

    assert incident.rule == "unreachable"
    assert list(sent) == [("opened", "", "ops"), ("worsened", "unreachable", "ops")]
    assert incident_text.subject(incident, "worsened").startswith("WORSE critical: cern: 4 of 4 paths dead")


def test_cells_say_all_lost_after_two_lost_cycles(dead_site):
    def cell(seconds):
        evaluate(at(seconds))
        grid = load_grid(Metric.LOSS, GridPeriod.NOW, at(seconds))
        (path,) = (path for path in grid.figures if (path.source, path.destination) == ("slac", "cern"))
        return path.state, cell_text(grid, path), sentence(grid, path)

    state, text, said = cell(25)

    assert (state, text) == (FigureState.TOTAL_LOSS, "all lost")
    assert lacks(said, LAST_REPLY.partition(" ")[2]) == [], said
    assert cell(3)[0] is FigureState.VALUE


def test_grid_title_and_evidence_have_the_same_last_reply(dead_site):
    """Large packets follow the small ones by three seconds, and their last replies are later."""
    large = list(Burst.objects.all())
    for burst in large:
        burst.packet_bytes, burst.measured_at = 1000, burst.measured_at + timedelta(seconds=3)
    copy_rows(large)
    last_reply = ONSET - CYCLE + LAST_PACKET + timedelta(seconds=3)
    stated = f"{last_reply:%H:%M:%S} UTC"
    for seconds in (33, 63, 123):
        evaluate(at(seconds))
    (incident,) = queries.open_incidents()
    gather.store_facts(incident, at(123))

    grid = load_grid(Metric.LOSS, GridPeriod.NOW, at(130))
    cells = [path for path in grid.figures if "cern" in (path.source, path.destination)]

    assert lacks(words.headline(incident), "cern: 4 of 4 paths dead since", stated) == []
    assert lacks(evidence(incident, at(123)).likely, "last reply", stated) == []
    evaluate(at(130))
    onsets = [path.present.track(Signal.LOSS).onset.at_s for path in cells]
    assert onsets == pytest.approx([last_reply.timestamp()] * len(cells), abs=1e-3)
    assert all(stated in sentence(grid, path) for path in cells), [sentence(grid, path) for path in cells]


def test_partial_loss_that_turns_into_an_outage_says_since_when():
    paths = mesh("slac", "cern", loss={"above_ratio": 0.01, "window_s": 600})
    plant(paths, [3] * 30 + [10] * 4 + [3] * 3)
    titles = []
    for seconds in (60, 90, 299, 333, 369):
        evaluate(at(seconds))
        titles += [words.headline(incident) for incident in queries.open_incidents()]

    last_reply = ONSET + 29 * CYCLE + LAST_PACKET
    assert "dead" not in titles[-3]
    assert lacks(titles[-2], f"dead since {last_reply:%H:%M:%S} UTC") == []
    assert "dead since" not in titles[-1]


def test_the_cause_turns_with_the_title_when_replies_stop_and_return():
    paths = mesh("slac", "cern", loss={"above_ratio": 0.01, "window_s": 600})
    plant(paths, [3] * 30 + [10] * 4 + [3] * 3)
    causes = []
    for seconds in (60, 90, 299, 333, 334, 369):
        evaluate(at(seconds))
        gathered = gather.gather_due(at(seconds))
        (incident,) = queries.lasting_incidents()
        causes.append((gathered, evidence(incident, at(seconds)).cause))
    (_, before), (turned, outage), (again, _), (returned, after) = causes[-4:]

    assert (before.fault, turned, again, returned) == (Fault.LOSS, 1, 0, 1)
    assert outage.fault is Fault.INTERRUPTED
    last_reply = ONSET + 29 * CYCLE + LAST_PACKET
    assert lacks(outage.sentence, f"last reply {last_reply:%Y-%m-%d %H:%M:%S} UTC", "both ends") == []
    assert after.fault is Fault.LOSS


def test_lost_bursts_of_a_few_packets_are_no_outages():
    """At 50% loss two bursts of two packets are lost together in a sixteenth of all cases."""
    random = np.random.default_rng(3)
    paths = mesh("slac", "cern", loss={"above_ratio": 0.01, "window_s": 600})
    plant(paths, [10] * 60)
    bursts = list(Burst.objects.filter(measured_at__gte=ONSET))
    for burst in bursts:
        lost = random.random(2) < 0.5
        burst.sent, burst.received, burst.rtts_ms = 2, int((~lost).sum()), [None if of else 100.0 for of in lost]
    Burst.objects.bulk_update(bursts, ["sent", "received", "rtts_ms"])
    for seconds in (300, 330, 593):
        evaluate(at(seconds))

    (incident,) = queries.open_incidents()
    assert not [word for word in ("dead", "flaps") if word in words.headline(incident)], words.headline(incident)


@pytest.fixture
def cut_off_centre(monkeypatch):
    """No site has delivered anything since the onset, a little loss before it on a path of cern."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    paths = mesh("slac", "cern", "nersc", "in2p3", no_data={}, loss={"above_ratio": 0.01, "window_s": 600})
    plant(paths, [])
    for number, site in enumerate(Site.objects.order_by("name")):
        AgentHealth.objects.create(site=site, accepted_at=at(-number), agent_version="1", queued=0, dropped=0)
    evaluate(at(340))
    return paths


def test_a_centre_that_no_site_reaches_blames_no_site(cut_off_centre):
    (incident,) = queries.open_incidents()
    gather.store_facts(incident, at(345))
    likely = evidence(incident, at(345)).cause
    title = words.headline(incident)

    assert lacks(likely.sentence, "centre", "no site", f"{ONSET:%Y-%m-%d %H:%M:%S} UTC") == []
    assert [site for site in ("cern", "slac", "in2p3", "nersc") if site in likely.sentence + likely.next_step] == []
    assert "answer" not in likely.sentence
    assert title.count("12 paths") == 1


def test_a_silent_agent_has_the_time_of_the_last_answered_ping(cut_off_centre):
    AgentHealth.objects.exclude(site__name="cern").update(accepted_at=at(340))
    for name, path in cut_off_centre.items():
        if not name.startswith("cern"):
            make_bursts(path, [0] * 33, ONSET, every_s=10)
    evaluate(at(341))
    (incident,) = queries.open_incidents()
    gather.store_facts(incident, at(345))
    likely = evidence(incident, at(345)).likely
    last_reply = ONSET + 32 * CYCLE + LAST_PACKET

    assert lacks(likely, "agent of cern", f"answers pings, last at {last_reply:%Y-%m-%d %H:%M:%S} UTC") == []


def test_paths_that_no_site_delivers_are_overdue(cut_off_centre, monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: at(340))
    grid = load_grid(Metric.LOSS, GridPeriod.NOW, at(340))

    assert {path.present.condition for path in grid.figures} == {Condition.OVERDUE}


def test_paths_that_wait_for_results_are_counted_once(monkeypatch):
    paths = mesh("slac", "cern", "nersc", loss={"above_ratio": 0.01, "window_s": 600})
    make_bursts(paths["slac → cern"], [0] * BEFORE, ONSET - BEFORE * CYCLE, every_s=10)
    Measurement.objects.update(started_at=ONSET - 12 * CYCLE)
    evaluate(ONSET)
    monkeypatch.setattr("django.utils.timezone.now", lambda: ONSET)
    html = Client(headers={"host": "localhost"}).get("/").content.decode()

    assert "Too early to tell: 5 of 6 paths have too few packets so far." in html
