"""Incidents say where: traces and bursts planted in the archive; the statement in cause, page, ticket and API."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from unittest import mock

import numpy as np
import pytest
from django.core.management import call_command
from django.db import transaction

from monitor.alerts import evaluate as evaluation
from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.detect.sources import STORED
from monitor.alerts.evidence import gather
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.routes import collect
from monitor.alerts.evidence.stated import Fault
from monitor.alerts.evidence.ticket import ticket_text
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.models import Incident
from monitor.analysis.routes.onset import LossOnset
from monitor.archive.ingest.traces import store_traces
from monitor.archive.models import Burst, Trace
from monitor.mesh.models import Mesh, Path
from probes.contract import Outcome
from probes.site.wire import Delivered
from probes.trace.spec import Hop, TraceRun
from tests.db.alert_rows import make_bursts, make_mesh
from tests.db.copied_rows import copy_rows
from tests.facts import lacks

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BEGAN = NOW - 20 * MINUTE
AS_TABLE = "8.1.0.0,8.1.255.255,20965,GEANT\n8.2.0.0,8.2.255.255,513,CERN\n8.3.0.0,8.3.255.255,174,COGENT\n"
GEANT, CERN, COGENT = "8.1.0.", "8.2.0.", "8.3.0."


@pytest.fixture
def as_names(tmp_path):
    file = tmp_path / "asn.csv"
    file.write_text(AS_TABLE)
    call_command("routes", "asn", "load", str(file), stdout=io.StringIO())


@pytest.fixture
def paths():
    return make_mesh(["slac", "cern"], NOW - timedelta(days=2))


@pytest.mark.usefixtures("paths")
def test_the_purpose_of_a_special_range_is_left_out_of_an_own_network():
    Mesh.objects.update(networks={"192.0.2.0/24": {"name": "SLAC", "asn": 3671}})
    names = collect.AddressPlaces(["192.0.2.33", "198.51.100.7"])

    assert names.place("192.0.2.33") == "SLAC, AS 3671"
    assert names.place("198.51.100.7") == "documentation (RFC 5737)"


def hop(ttl, address, rtts_ms):
    return Hop(ttl=ttl, rtts_ms=rtts_ms) if address is None else Hop(ttl=ttl, address=address, rtts_ms=rtts_ms)


def plant_trace(path, at, hops, *, lossy_from=None, flow=7):
    """A trace whose last hop is the destination; from the hop `lossy_from` on a third of the probes are lost."""
    rows = tuple(
        hop(ttl, address, (None, *[float(ttl)] * 2) if lossy_from and ttl >= lossy_from else (float(ttl),) * 3)
        for ttl, address in enumerate(hops, 1)
    )
    run = TraceRun(
        target="x",
        address=hops[-1],
        family=4,
        started_at=at,
        outcome=Outcome.MEASURED,
        flow=flow,
        reached=True,
        hops=rows,
    )
    with transaction.atomic():
        store_traces([Delivered(sequence=1, path_id=path.pk, test="routes", result=run)], NOW)


def plant_pings(path, *, lost=0, shift_ms=0.0, hours=6):
    """A burst a minute up to now; from BEGAN on with this loss of ten packets and this rise of the RTT."""
    noise = np.random.default_rng(path.pk).exponential(0.2, (hours * 60, 10))
    rows = []
    for number, rest in enumerate(noise):
        at = NOW - (hours * 60 - number) * MINUTE
        missing, more = (lost, shift_ms) if at >= BEGAN else (0, 0.0)
        rtts = [None if place < missing else 20.0 + more + wait for place, wait in enumerate(rest)]
        rows.append(
            Burst(
                path_id=path.pk, packet_bytes=100, measured_at=at, outcome="measured", sent=10, received=10 - missing,
                duplicates=0, reordered=0, during_test=False, ttl=60, rtts_ms=rtts,
            )
        )  # fmt: skip
    copy_rows(rows)


def opened(*findings, cause="cern ↔ slac"):
    lifecycle.add_findings(cause, findings, NOW - timedelta(seconds=20))
    row = Incident.objects.get(cause=cause)
    lifecycle.open_if_confirmed(row.pk, NOW)
    gather.store_facts(row, NOW)
    return queries.incident_with_paths(row.pk)


def finding(path, rule, **figures):
    return RuleFinding(rule, path.pk, str(path), f"{rule} is high", BEGAN, figures)


def rtt_finding(path):
    figures = {"figure": "median", "before_ms": 20.0, "after_ms": 80.0, "since": BEGAN.isoformat()}
    return finding(path, "rtt", **figures)


FORWARD = [GEANT + "1", GEANT + "2", CERN + "1", CERN + "2", "192.0.2.2"]
REVERSE = [CERN + "2", CERN + "1", GEANT + "2", GEANT + "1", "192.0.2.1"]


def plant_lossy_link(there, back):
    """Packets from hop 2 of GEANT to hop 3 of CERN are lost from BEGAN on: traces of both ends show it behind their
    third hop, and pings of both as well."""
    for path, hops in ((there, FORWARD), (back, REVERSE)):
        plant_pings(path, lost=3)
        for minute in (-200, -100, -60, -40, -30):
            plant_trace(path, NOW + minute * MINUTE, hops)
        for minute in range(-19, 0):
            plant_trace(path, NOW + minute * MINUTE + MINUTE / 2, hops, lossy_from=3)


def test_loss_is_placed_between_two_hops_from_both_ends(paths, as_names, client, settings):
    settings.LOCAL_READ = settings.ALLOW_PLAIN_HTTP = True
    there, back = paths["slac → cern"], paths["cern → slac"]
    plant_lossy_link(there, back)

    row = opened(finding(there, "loss", sent=200, lost=60))

    gathered = evidence(row, NOW)
    (route,) = gathered.routes
    place = "loss begins between hop 2 (AS 20965 GEANT) and hop 3 (AS 513 CERN), seen from both ends"
    assert (route.path, route.is_certain, route.changed_at) == ("slac → cern", True, None)
    assert route.sentence == f"route unchanged; {place}"
    assert gathered.cause.fault is Fault.LOSS
    assert place in gathered.likely
    ticket = ticket_text(row, gathered)
    assert lacks(ticket, place, "trace before, 2026-11-21 09:35:00 UTC", "trace after", "1 of 3 lost") == []
    page = client.get(f"/incidents/{row.pk}/", headers={"host": "localhost"}).content.decode()
    assert lacks(page, place, "AS 513 CERN", "1 of 3") == []
    answer = client.get(f"/api/v1/incidents/{row.pk}", headers={"host": "localhost"})
    stated = json.loads(answer.content)["evidence"]["routes"][0]
    assert (stated["sentence"], len(stated["after"]["hops"])) == (route.sentence, 5)


def test_a_trace_that_ends_early_says_what_was_lost(paths, client, settings):
    settings.LOCAL_READ = settings.ALLOW_PLAIN_HTTP = True
    there, back = paths["slac → cern"], paths["cern → slac"]
    plant_lossy_link(there, back)
    lost = "not reached: 20 of 20 packets lost after hop 4"
    Trace.objects.filter(path_id=there.pk, measured_at__gte=BEGAN).update(reached=False, detail=lost)

    row = opened(finding(there, "loss", sent=200, lost=60))

    page = client.get(f"/incidents/{row.pk}/", headers={"host": "localhost"}).content.decode()
    for text in (page, ticket_text(row, evidence(row, NOW))):
        assert text.count(f"destination {lost}") >= 1
        assert "trace before, 2026-11-21 09:35:00 UTC\n" in text


def test_a_hop_has_a_rate_limit_only_where_proven(paths, as_names, client, settings):
    settings.LOCAL_READ = settings.ALLOW_PLAIN_HTTP = True
    there = paths["slac → cern"]
    plant_lossy_link(there, paths["cern → slac"])
    # The link loses a third from hop 3 on; the first hop besides answers one of three probes, in all traces.
    for trace in Trace.objects.filter(path_id=there.pk, measured_at__gte=BEGAN):
        rtts_ms = trace.rtts_ms
        rtts_ms[:3] = [None, None, 1.0]
        Trace.objects.filter(pk=trace.pk).update(rtts_ms=rtts_ms)

    row = opened(finding(there, "loss", sent=200, lost=60))

    (route,) = evidence(row, NOW).routes
    assert [hop.is_limited for hop in route.after.hops] == [True, False, False, False, False]
    assert not any(hop.is_limited for hop in route.before.hops)
    page = client.get(f"/incidents/{row.pk}/", headers={"host": "localhost"}).content.decode()
    assert page.count("(rate limit)") == 2  # the table and the ticket


def test_loss_on_the_way_back_is_stated_of_the_reverse_path(paths, as_names):
    # The last link of the route back loses: only replies, so the far end sees it at all hops, the near end at the last.
    there, back = paths["slac → cern"], paths["cern → slac"]
    plant_lossy_link(there, back)
    onset = LossOnset(0, 1, True, 0.97, 0.01, 2)
    with mock.patch.object(collect, "find_onset", return_value=onset):
        row = opened(finding(there, "loss", sent=200, lost=60))

    (route,) = evidence(row, NOW).routes
    place = "loss begins between the source and hop 1 (AS 513 CERN), seen from both ends"
    assert (route.path, route.sentence) == ("cern → slac", f"route unchanged; {place}")
    assert route.after.hops[0].address == REVERSE[0]
    assert "cern → slac: route unchanged" in evidence(row, NOW).likely


@pytest.mark.parametrize("has_reverse", [True, False])
def test_a_step_on_an_unchanged_route_cannot_be_placed(paths, has_reverse):
    there, back = paths["slac → cern"], paths["cern → slac"]
    plant_pings(there, shift_ms=60.0)
    for minute in range(-300, 0, 10):
        plant_trace(there, NOW + minute * MINUTE, FORWARD)
        if has_reverse:
            plant_trace(back, NOW + minute * MINUTE, REVERSE)

    gathered = evidence(opened(rtt_finding(there)), NOW)

    (route,) = gathered.routes
    assert (route.is_unchanged, route.is_certain) == (has_reverse, False)
    assert lacks(route.sentence, "route unchanged", "where: cannot tell") == []
    # The reverse route may have changed where nobody traced it.
    assert ("reverse route unknown" in route.sentence) is not has_reverse
    assert ("with the same routers" in gathered.likely, "longer route" in gathered.likely) == (
        has_reverse,
        not has_reverse,
    )
    assert "60.0 ms" in gathered.likely


def test_a_route_that_is_cut_off_is_unchanged_up_to_there(paths):
    there = paths["slac → cern"]
    plant_pings(there, lost=10)
    for minute in range(-300, 0, 5):
        plant_trace(there, NOW + minute * MINUTE, FORWARD)
    Trace.objects.filter(path_id=there.pk, measured_at__gte=BEGAN).update(reached=False, sent=[3, 3], rtts_ms=[1.0] * 6)

    (route,) = evidence(opened(finding(there, "loss", sent=200, lost=200)), NOW).routes

    assert not route.is_unchanged
    assert lacks(route.sentence, "route unchanged up to hop 2", "no reply beyond") == []


def test_a_router_that_limits_its_replies_is_not_blamed(paths):
    """Hop 2 loses a third of its probes, before and since; the path itself loses nothing."""
    there = paths["slac → cern"]
    plant_pings(there, shift_ms=60.0)
    for minute in range(-300, 0, 10):
        rows = [GEANT + "1", GEANT + "2", CERN + "1", "192.0.2.2"]
        plant_trace(there, NOW + minute * MINUTE, rows, lossy_from=2)

    gathered = evidence(opened(rtt_finding(there)), NOW)

    assert lacks(gathered.likely, "loss begins") == ["loss begins"]


def test_without_traces_nothing_is_said_of_routes(paths):
    there, back = paths["slac → cern"], paths["cern → slac"]
    plant_pings(there, lost=3)
    plant_pings(back, lost=3)

    row = opened(finding(there, "loss", sent=200, lost=60))

    gathered = evidence(row, NOW)
    assert gathered.routes == ()
    assert "where" not in gathered.likely
    assert "Route " not in ticket_text(row, gathered)


def test_paths_through_one_as_are_one_incident_of_its_name(as_names, monkeypatch):
    """Seven sites; the paths between the first four and the last three, and no others, pass a router of GEANT."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    names = [f"s{number}" for number in range(7)]
    paths = make_mesh(names, NOW - timedelta(days=30), loss={"above_ratio": 0.01, "window_s": 600})
    far = set(names[4:])
    crossing = {name for name in paths if len(far & set(name.split(" → "))) == 1}
    bad = sorted(crossing)[:10] + sorted(crossing)[14:]
    for name, path in paths.items():
        source, destination = name.split(" → ")
        first, last = (f"8.9.{names.index(end)}.1" for end in (source, destination))
        middle = [GEANT + "1"] if name in crossing else [COGENT + "1"]
        plant_trace(path, NOW - 15 * MINUTE, [first, *middle, last, path.destination.address])
        make_bursts(path, [0] * 120, NOW - 130 * MINUTE)
        make_bursts(path, [2 if name in bad else 0] * 10, NOW - 10 * MINUTE)

    evaluation.evaluate(NOW)

    (incident,) = Incident.objects.all()
    assert incident.cause == "AS 20965 GEANT"
    assert {str(row.path) for row in incident.paths.all()} == set(bad)
    assert lacks(incident.summary, "AS 20965 GEANT", "hop 8.1.0.1", " 0.9") == []


def test_paths_are_pooled_by_as_once_a_table_is_loaded(paths, request):
    there, back = paths["slac → cern"], paths["cern → slac"]
    plant_trace(there, NOW - 15 * MINUTE, [GEANT + "1", "10.1.1.1", CERN + "9"])
    plant_trace(back, NOW - 15 * MINUTE, [CERN + "1", GEANT + "2", None, "198.51.100.9"])

    without_table = STORED.as_paths(NOW)
    request.getfixturevalue("as_names")

    assert without_table == {}
    assert STORED.as_paths(NOW) == {
        "AS 20965 GEANT": frozenset({there.pk, back.pk}),
        "AS 513 CERN": frozenset({there.pk, back.pk}),
    }
    assert STORED.as_paths(NOW - timedelta(days=1)) == {}


def test_bad_paths_without_traces_keep_their_causes(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    paths = make_mesh(["a", "b", "c", "d"], NOW - timedelta(days=30), loss={"above_ratio": 0.01, "window_s": 600})
    for name, path in paths.items():
        make_bursts(path, [0] * 120, NOW - 130 * MINUTE)
        make_bursts(path, [2 if name.startswith("a ") else 0] * 10, NOW - 10 * MINUTE)

    evaluation.evaluate(NOW)

    assert [incident.cause for incident in Incident.objects.all()] == ["a outbound"]
    assert Path.objects.count() == 12
