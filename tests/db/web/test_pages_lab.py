"""The lab's page: broken paths with their incidents, and who may break them. A Unix socket answers as the lab does."""

import os
import re
import socket
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from msgspec.structs import replace

from monitor.alerts.detect.rules.loss import LossRule
from monitor.alerts.detect.rules.loss_times import PingCadence, detection_time
from monitor.alerts.models import HistoryEvent, Incident, IncidentPath
from monitor.mesh.models import Slot, SlotHost
from monitor.mesh.models import Test as MeshTest
from probes.lab.control import PathStatus
from probes.lab.emulated_path import PathCounters
from probes.lab.routing.protocol import RouteStatus
from probes.lab.settings import PathSettings
from probes.quantities import duration_text
from tests.db.fake_lab import ORIGINAL, FakeLab
from tests.db.pages_mesh import NOW, burst, throughput
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon", "paths")]
PLANTED_AT = NOW - timedelta(minutes=3)


@pytest.fixture
def lab(tmp_path, settings):
    settings.LAB_DIR = tmp_path
    server = FakeLab(tmp_path, PLANTED_AT)
    yield server
    server.close()


@pytest.fixture
def operator(client):
    user = User.objects.create_user("operator", password="long and winding")
    user.groups.add(Group.objects.get(name="operator"))
    client.force_login(user)
    return client


@pytest.fixture
def neighbour():
    """A browser on this machine, without a login."""
    return Client(HTTP_HOST="localhost")


def text(answer):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


def incident(path, at, **fields):
    opened = Incident.objects.create(rule="loss", cause="path", opened_at=at, summary="loss", **fields)
    IncidentPath.objects.create(
        incident=opened, path=path, added_at=at, rule="loss", sentence="loss", figures={}, since=at
    )
    return opened


def test_without_a_lab_the_page_does_not_exist(operator, paths):
    assert operator.get("/lab/").status_code == 404
    assert operator.post("/lab/", {"path": "cern:slac", "loss_percent": "20"}).status_code == 404
    assert "/lab/" not in operator.get("/").content.decode()
    assert "/lab/" not in operator.get(f"/paths/{paths['cern', 'slac'].pk}/").content.decode()


def test_an_operator_breaks_a_path_and_restores_it(operator, lab):
    broken = operator.post("/lab/", {"path": "cern:slac", "loss_percent": "20", "rate_mbps": "5"}, follow=True)

    assert lab.settings["cern", "slac"] == PathSettings(delay_ms=40.0, loss_ratio=0.2, rate_mbps=5.0)
    assert lab.settings["slac", "cern"] == ORIGINAL
    assert lacks(text(broken), "cern → slac", "20% loss", "rate 5 Mbit/s", "12:27", "none yet, 3 min") == []

    restored = operator.post("/lab/", {"undo": "cern:slac"}, follow=True)
    assert lab.settings["cern", "slac"] == ORIGINAL
    assert "as in the scenario" in text(restored)


def test_sites_cut_off_from_the_centre_are_shown_and_connected_again(operator, neighbour, lab):
    assert "cut off" not in text(operator.get("/lab/"))
    lab.centre, lab.cut_off_at = "down", PLANTED_AT

    assert "All sites are cut off from the centre since 2026" in text(operator.get("/lab/"))
    assert "these times count from when it is back" in text(operator.get("/lab/"))
    assert neighbour.post("/lab/", {"connect": "centre"}).status_code == 403

    assert lab.centre == "down"
    assert "cut off" not in text(operator.post("/lab/", {"connect": "centre"}, follow=True))
    assert lab.centre == "up"


def test_the_page_tells_the_time_until_the_incident(operator, lab, paths):
    earlier = incident(paths["cern", "slac"], PLANTED_AT - timedelta(hours=1), closed_at=PLANTED_AT)
    opened = incident(paths["slac", "cern"], PLANTED_AT + timedelta(seconds=108))
    operator.post("/lab/", {"path": "cern:slac", "loss_percent": "20"})

    page = operator.get("/lab/")

    assert f'data-label="incident"><a href="/incidents/{opened.pk}/">opened after 1 min 48 s<' in page.content.decode()
    assert f'href="/incidents/{earlier.pk}/"' not in page.content.decode()


def test_the_time_is_until_the_incident_opened_not_its_finding(operator, lab, paths):
    found_at = PLANTED_AT + timedelta(seconds=38)
    opened = incident(paths["slac", "cern"], found_at)
    opened.turns.create(turn=HistoryEvent.OPENED, at=found_at + timedelta(seconds=20))
    operator.post("/lab/", {"path": "cern:slac", "loss_percent": "20"})

    assert "opened after 58 s" in text(operator.get("/lab/"))


def test_an_incident_that_was_open_before_is_told_apart(operator, lab, paths):
    before = incident(paths["cern", "slac"], PLANTED_AT - timedelta(minutes=5))
    operator.post("/lab/", {"path": "cern:slac", "loss_percent": "20"})

    page = operator.get("/lab/")

    assert "open before" in text(page)
    assert f'href="/incidents/{before.pk}/"' in page.content.decode()


SLOWER = {"figure": "median", "before_ms": 124.0, "after_ms": 190.0}
BEGUN_S, ENDED_S = ((PLANTED_AT - timedelta(minutes=minutes)).timestamp() for minutes in (5, 1))
BACK = {
    "condition": 0,
    "newest_s": ENDED_S,
    "segments": [[1, BEGUN_S, None, BEGUN_S, *[190.6] * 4], [0, ENDED_S, None, ENDED_S, *[124.4] * 4]],
}
LOST = {"lost": 20, "sent": 100}
NO_LOSS = {
    "condition": 0,
    "newest_s": ENDED_S,
    "segments": [[1, BEGUN_S, None, BEGUN_S, 100, 20, 1.0], [0, ENDED_S, None, ENDED_S, 90, 0, 1.0]],
}


@pytest.mark.parametrize(
    ("rule", "figures", "level", "planted", "is_named"),
    [
        ("rtt", SLOWER, None, {"loss_percent": "100"}, False),
        ("rtt", SLOWER, None, {"delay_ms": "120"}, True),
        ("rtt", SLOWER, BACK, {"delay_ms": "120"}, False),
        ("loss", LOST, None, {"loss_percent": "100"}, True),
        ("loss", LOST, NO_LOSS, {"loss_percent": "100"}, False),
        ("loss", LOST, None, {"rate_mbps": "5"}, False),
        ("loss", LOST, None, {"rate_mbps": "5", "loss_percent": "3"}, True),
    ],
)
def test_only_an_incident_that_has_the_fault_was_open_before(
    operator, lab, paths, rule, figures, level, planted, is_named
):
    """Of another symptom, or back to normal already, it is not that of the fault."""
    before = incident(paths["cern", "slac"], PLANTED_AT - timedelta(minutes=5))
    before.paths.update(rule=rule, figures=figures, level=level)
    operator.post("/lab/", {"path": "cern:slac"} | planted)

    page = operator.get("/lab/")

    assert ("open before" in text(page)) == is_named
    assert (f'href="/incidents/{before.pk}/"' in page.content.decode()) == is_named


def test_both_directions_are_broken_at_once(operator, lab):
    operator.post("/lab/", {"path": "cern:slac", "loss_percent": "20", "both": "on"})

    assert {settings.loss_ratio for settings in lab.settings.values()} == {0.2}


def test_a_site_is_taken_down_and_brought_up(operator, lab):
    down = operator.post("/lab/", {"down": "cern"}, follow=True)
    lost = {settings.loss_ratio for settings in lab.settings.values()}
    up = operator.post("/lab/", {"up": "cern"}, follow=True)

    assert lost == {1.0}
    assert 'data-site-down="cern"' in down.content.decode()
    assert "data-site-down" not in up.content.decode()
    assert set(lab.settings.values()) == {ORIGINAL}
    assert operator.post("/lab/", {"down": "mars"}).status_code == 422


def test_a_site_that_is_down_is_listed_once_with_its_incident(operator, lab, paths):
    """Its paths are not listed again, but for one that is changed otherwise too."""
    operator.post("/lab/", {"down": "cern"})
    alone = operator.get("/lab/")
    opened = incident(paths["slac", "cern"], PLANTED_AT + timedelta(seconds=52))
    operator.post("/lab/", {"path": "cern:slac", "delay_ms": "90"})

    page = operator.get("/lab/")

    assert "cern is down since 2026-11-21 12:27" in text(alone)
    assert "all its paths lose every packet; no incident yet, 3 min" in text(alone)
    assert "data-path=" not in alone.content.decode()
    assert "as in the scenario" not in text(alone)
    assert f'every packet; <a href="/incidents/{opened.pk}/">incident opened after 52 s</a>.' in page.content.decode()
    assert re.findall(r'data-path="([^"]*)"', page.content.decode()) == ["cern:slac"]


def test_changed_links_and_routes_are_shown_and_restored(operator, lab, paths):
    opened = incident(paths["cern", "slac"], PLANTED_AT + timedelta(seconds=149))
    original = PathSettings(delay_ms=1.0)
    lab.links = (
        PathStatus(
            source="r1", destination="slac", settings=PathSettings(delay_ms=1.0, loss_ratio=0.05),
            counts=PathCounters(), held=0, original=original, changed_at=PLANTED_AT,
        ),
        PathStatus(
            source="cern", destination="r1", settings=original, counts=PathCounters(), held=0, original=original
        ),
    )  # fmt: skip
    lab.routes = (
        RouteStatus(source="cern", destination="slac", routes=(("r1",),), original=(("r1",),)),
        RouteStatus(
            source="slac", destination="cern", routes=(("r2", "r1"),), original=(("r1",),), changed_at=PLANTED_AT
        ),
    )

    page = operator.get("/lab/")

    assert lacks(text(page), "link r1 → slac 5% loss", "slac → cern route r2, r1", "opened after 2 min 29 s") == []
    assert "as in the scenario" not in text(page)
    assert page.content.decode().count(f'href="/incidents/{opened.pk}/"') >= 2
    for value in re.findall(r'name="undo" value="([^"]+)"', page.content.decode()):
        operator.post("/lab/", {"undo": value})
    assert sorted(lab.restored) == [("RouteRequest", "slac", "cern"), ("SetRequest", "r1", "slac")]


def expected(client, **query):
    return client.get("/lab/expected/", query).json()


def test_a_rate_without_eight_earlier_tests_is_too_early(operator, lab):
    operator.post("/lab/", {"path": "cern:slac", "rate_mbps": "3"})

    answer = expected(operator, path="cern:slac")

    # mesh of the test: a throughput test each hour, none of them measured yet
    assert answer["wait_s"] is None
    assert lacks(" ".join(answer["sentences"]), "8 tests", "there are 0") == []
    assert "both directions" not in " ".join(answer["sentences"])
    html = text(operator.get("/lab/"))
    assert lacks(html, "rate 3 Mbit/s", "none: too few tests") == []
    assert "none yet" not in html


def test_the_wait_for_a_rate_is_two_tests_after_eight(operator, lab, paths):
    for hours in range(1, 9):
        throughput(paths["cern", "slac"], PLANTED_AT - timedelta(hours=hours), 94e6)
    operator.post("/lab/", {"path": "cern:slac", "rate_mbps": "3"})
    low = expected(operator, path="cern:slac")
    operator.post("/lab/", {"path": "cern:slac", "rate_mbps": "60"})
    small = expected(operator, path="cern:slac")

    assert low["wait_s"] == 2 * 3600 + 50
    assert lacks(" ".join(low["sentences"]), "2 h", "second throughput test") == []
    # half of 94 Mbit/s: the rule's default
    assert small["wait_s"] is None
    assert lacks(" ".join(small["sentences"]), "60 Mbit/s", "47 Mbit/s", "no incident soon") == []


def test_the_wait_for_a_site_down_and_for_delay_is_told(operator, lab, paths):
    operator.post("/lab/", {"path": "cern:slac", "delay_ms": "90"})
    for minute in range(13):
        burst(paths["cern", "slac"], PLANTED_AT - timedelta(minutes=minute + 1), 80.0, 80.2)
    early = expected(operator, path="cern:slac")
    burst(paths["cern", "slac"], PLANTED_AT - timedelta(minutes=14), 80.0, 80.2)
    delay = expected(operator, path="cern:slac")
    operator.post("/lab/", {"down": "cern"})
    down = expected(operator, site="cern")

    assert early["wait_s"] is None
    assert lacks(" ".join(early["sentences"]), "14 bursts", "there are 13") == []
    # a ping a minute: 14 bursts, and one that the fault began in; three minutes without a reply; the loss rule
    # of two sizes a cycle needs two cycles; 30 s until the evaluation, 20 s pending
    assert delay["wait_s"] == 15 * 60 + 50
    assert lacks(" ".join(delay["sentences"]), "within 15 min 50 s", "14 bursts") == []
    assert lacks(" ".join(down["sentences"]), "100% loss: an incident usually opens within 2 min 50 s") == []


def test_the_wait_for_loss_is_that_of_its_rule(operator, lab):
    operator.post("/lab/", {"path": "cern:slac", "loss_percent": "20"})
    strong = expected(operator, path="cern:slac")
    operator.post("/lab/", {"path": "cern:slac", "loss_percent": "0.5"})
    weak = expected(operator, path="slac:cern")

    # The rule's defaults, a threshold of 1% and a window of 600 s; a ping of 10 packets of each size a minute.
    time = detection_time(0.2, LossRule(), PingCadence(60, 2, 10))
    assert strong["wait_s"] == time.most_s + 50
    about, most = (duration_text(seconds + 50) for seconds in (time.half_s, time.most_s))
    assert lacks(" ".join(strong["sentences"]), f"about {about}", f"9 of 10 within {most}", "both directions") == []
    assert "throughput tests" not in " ".join(strong["sentences"])
    assert weak["wait_s"] is None
    assert lacks(" ".join(weak["sentences"]), "0.5%", "threshold of 1%", "no incident") == []


def reserve(path, since, until, *hosts):
    slot = Slot.objects.create(
        measurement=path.measurements.get(test__kind="throughput"), starts_at=since, ends_at=until
    )
    for host in hosts:
        SlotHost.objects.create(slot=slot, host=host, starts_at=since, ends_at=until)


def test_planned_throughput_tests_delay_the_incident_of_loss(operator, lab, paths):
    """Those of either site of the path, with whichever other: their pings do not count. A test of the source ends 12 s
    after its begin, those of others last as long as their slots, and a second longer for the clocks."""
    since_s = ((60, 90), (90, 240))
    loaded_s = ((60, 72), (89, 240))
    MeshTest.objects.filter(kind="throughput").update(parameters={"duration_s": 10, "omit_s": 0})
    moments = [[PLANTED_AT + timedelta(seconds=each) for each in period] for period in since_s]
    cern, slac, uct = (paths[pair].source for pair in (("cern", "uct"), ("slac", "uct"), ("uct", "cern")))
    reserve(paths["uct", "cern"], *moments[0], uct, cern)
    reserve(paths["slac", "uct"], *moments[1], slac, uct)
    undelayed = PLANTED_AT + timedelta(hours=2)
    reserve(paths["cern", "slac"], undelayed, undelayed + timedelta(minutes=1), cern, slac)
    operator.post("/lab/", {"path": "cern:slac", "loss_percent": "20"})

    answer = expected(operator, path="cern:slac")

    time, without = (detection_time(0.2, LossRule(), PingCadence(60, 2, 10), tests) for tests in (loaded_s, ()))
    assert answer["wait_s"] == time.most_s + 50 > without.most_s + 50
    about, most = (duration_text(seconds + 50) for seconds in (time.half_s, time.most_s))
    facts = (f"about {about}", f"9 of 10 within {most}", "during throughput tests do not count")
    assert lacks(" ".join(answer["sentences"]), *facts) == []


def test_the_wait_for_a_longer_route_is_that_of_its_delay(operator, lab, paths):
    """From cern over r2: 5 + 40 + 5 ms instead of 5 + 5 there, and the scenario's way back; then the fast way."""
    for minute in range(1, 15):
        for path in paths.values():
            burst(path, PLANTED_AT - timedelta(minutes=minute), 80.0, 80.2)

    def link(source, destination, delay_ms):
        settings = PathSettings(delay_ms=delay_ms)
        return PathStatus(
            source=source, destination=destination, settings=settings, counts=PathCounters(), held=0, original=settings
        )

    def over(*routers, changed_at):
        return RouteStatus(
            source="cern", destination="slac", routes=(routers,), original=(("r1",),), changed_at=changed_at
        )

    lab.links = (
        link("cern", "r1", 5.0), link("r1", "r2", 40.0), link("r2", "slac", 5.0), link("r1", "slac", 5.0),
        link("cern", "slac", 1.0), link("slac", "r1", 5.0), link("r1", "cern", 5.0),
    )  # fmt: skip
    back = RouteStatus(source="slac", destination="cern", routes=(("r1",),), original=(("r1",),))
    lab.routes = (over("r1", changed_at=None), back)
    original = expected(operator, path="cern:slac")
    lab.routes = (over("r1", "r2", changed_at=PLANTED_AT), back)
    longer = expected(operator, path="slac:cern")
    lab.routes = (over(changed_at=PLANTED_AT), back)
    shorter = expected(operator, path="cern:slac")
    balanced = replace(over("r1", "r2", changed_at=PLANTED_AT), original=(("r1",), ()))
    lab.routes = (balanced, back)
    of_flow = expected(operator, path="cern:slac")

    assert original == {"sentences": [], "wait_s": None}
    assert longer["wait_s"] == 15 * 60 + 50
    assert lacks(" ".join(longer["sentences"]), "40 ms more", "within 15 min 50 s") == []
    assert shorter["wait_s"] is None
    assert lacks(" ".join(shorter["sentences"]), "9 ms less", "No incident", "next trace") == []
    assert lacks(" ".join(of_flow["sentences"]), "40 to 49 ms more") == []


def test_the_page_prints_the_run_folder_of_its_lab(operator, lab, tmp_path):
    assert f"probes lab set --run-dir {tmp_path} " in text(operator.get("/lab/"))


def test_with_routers_the_page_says_that_a_delay_is_added(operator, lab):
    assert "added to that of the links" not in text(operator.get("/lab/"))
    assert "LAB=four-sites-routed" in text(operator.get("/lab/"))

    route = (("r1",),)
    lab.routes = (RouteStatus(source="cern", destination="slac", routes=route, original=route),)

    assert "A delay is added to that of the links between routers" in text(operator.get("/lab/"))
    assert "no routers" not in text(operator.get("/lab/"))


@pytest.mark.parametrize(
    ("fields", "fact"),
    [
        ({"path": "cern:slac"}, "Give a loss"),
        ({"path": "cern:slac", "loss_percent": "120"}, "100"),
        ({"path": "cern:mars", "loss_percent": "20"}, "valid choice"),
    ],
)
def test_an_invalid_change_is_refused_and_changes_nothing(operator, lab, fields, fact):
    answer = operator.post("/lab/", fields)

    assert answer.status_code == 422
    assert fact in text(answer)
    assert set(lab.settings.values()) == {ORIGINAL}


def test_a_lab_that_has_ended_is_said(operator, tmp_path, settings):
    settings.LAB_DIR = tmp_path

    answer = operator.get("/lab/")

    assert answer.status_code == 503
    assert "no lab is running" in text(answer)


def test_in_lab_mode_the_navigation_and_the_path_lead_to_the_page(operator, lab, paths):
    page = operator.get(f"/paths/{paths['cern', 'slac'].pk}/").content.decode()

    assert 'href="/lab/"' in page
    assert 'href="/lab/?path=cern%3Aslac"' in page
    assert re.search('<option value="cern:slac" selected', operator.get("/lab/?path=cern%3Aslac").content.decode())


def connected_as(user, listener):
    """A connection to `listener` by a process of this user."""
    os.seteuid(user)
    try:
        return socket.create_connection(listener.getsockname())
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to connect as another user")
@pytest.mark.parametrize(("user", "may_break"), [(0, True), (65534, False)])
def test_of_local_users_only_that_of_the_lab_may_break(neighbour, lab, user, may_break):
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        connected_as(user, listener),
        listener.accept()[0] as connection,
    ):
        served = {"gunicorn.socket": connection}
        shown = neighbour.get("/lab/", **served)
        posted = neighbour.post("/lab/", {"path": "cern:slac", "loss_percent": "20"}, **served)

    assert ("Break this path" in text(shown)) == may_break
    assert (posted.status_code, posted.get("Location")) == ((302, "/lab/") if may_break else (403, None))
    assert (lab.settings["cern", "slac"] != ORIGINAL) == may_break


def test_a_reader_without_a_known_process_may_not_break(neighbour, lab):
    assert "Break this path" not in text(neighbour.get("/lab/"))
    assert neighbour.post("/lab/", {"path": "cern:slac", "loss_percent": "20"}).status_code == 403
