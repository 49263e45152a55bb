"""Route changes in the report: traces and bursts through the archive, the change named by its effect and its AS."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import numpy as np
import pytest
from django.core.management import call_command
from django.db import transaction

from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.ingest.traces import store_traces
from monitor.archive.models import Burst
from monitor.reports.contents.report import RouteChangeReport
from monitor.reports.formats import mail, page
from probes.trace.spec import Hop
from tests.db.copied_rows import copy_rows
from tests.db.mesh_of_three import MeshOfThree, make_mesh
from tests.db.report_rows import ENGLISH, WEEK, Text
from tests.db.report_rows import report as report_of_week
from tests.db.trace_rows import address, delivered, trace
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
MINUTE = timedelta(minutes=1)
NOON = WEEK.since + timedelta(days=2, hours=12)
STEP_AT = -25


@pytest.fixture
def mesh(tmp_path) -> MeshOfThree:
    """slac to cern goes by AS 174 instead of AS 3356 before noon, with 60 ms more."""
    mesh = make_mesh()
    file = tmp_path / "asn.csv"
    file.write_text("8.8.8.0,8.8.8.255,3356,Old\n8.8.9.0,8.8.9.255,174,New\n")
    call_command("routes", "asn", "load", str(file), stdout=StringIO())
    plant_traces(mesh.slac_cern, ("8.8.8.1", address("D")), ("8.8.9.1", address("D")))
    plant_pings(mesh.slac_cern, 60.0)
    return mesh


def plant_traces(path, before, after, last_before=-31):
    """Every ten minutes for six hours; the route changes within ten minutes of `last_before`, in minutes from noon."""
    runs = []
    for minute in range(-301, 60, 10):
        hops = before if minute <= last_before else after
        listed = tuple(Hop(ttl=ttl, address=hop, rtts_ms=(1.0 * ttl,)) for ttl, hop in enumerate(hops, 1))
        runs.append(trace(at=NOON + minute * MINUTE, hops=listed))
    with transaction.atomic():
        store_traces([delivered(path, run) for run in runs], WEEK.until)


def plant_pings(path, shift_ms):
    """A burst a minute for six hours, with a step of the RTT between the traces of the change."""
    noise = np.random.default_rng(5).exponential(0.3, (360, 10))
    copy_rows(
        Burst(
            path_id=path.pk,
            packet_bytes=100,
            measured_at=NOON + minute * MINUTE,
            outcome="measured",
            sent=10,
            received=10,
            duplicates=0,
            reordered=0,
            during_test=False,
            rtts_ms=[20.0 + rest + (shift_ms if minute >= STEP_AT else 0.0) for rest in noise[minute + 300]],
        )
        for minute in range(-300, 60)
    )


def plant_steps(path, *minutes):
    """Findings of the rule on RTT steps, an incident each."""
    for minute in minutes:
        incident = Incident.objects.create(
            rule="rtt", cause=f"step {minute}", opened_at=NOON, closed_at=NOON, summary="RTT"
        )
        since = NOON + minute * MINUTE
        figures = {"before_ms": 20.0, "after_ms": 80.0, "not_before": (since - MINUTE).isoformat()}
        IncidentPath.objects.create(
            incident=incident,
            path=path,
            added_at=NOON,
            rule="rtt",
            sentence="",
            since=since,
            figures=figures,
            is_over=True,
        )


def test_a_change_is_listed_with_its_effect_and_its_as(mesh: MeshOfThree) -> None:
    plant_traces(mesh.cern_slac, (address("A"), address("D")), (address("B"), address("D")), last_before=-151)

    report = report_of_week()

    routes = report.routes
    assert routes is not None
    assert (routes.traced_paths, routes.changes, routes.steps) == (2, 2, 0)
    (listed, *others) = [change for change in routes.with_effect if change.path == "slac → cern"]
    assert listed == RouteChangeReport(
        "slac → cern", NOON - 21 * MINUTE, ("+60 ms",), "now by AS 174 instead of AS 3356"
    )
    assert others == []


@pytest.mark.parametrize("render", [page.render, lambda report, numbers: mail.html(report, numbers, "https://x/")])
def test_page_and_mail_have_the_change_and_the_tables_date(mesh: MeshOfThree, render) -> None:
    report = report_of_week()

    lines = Text(render(report, ENGLISH)).lines

    assert lacks(" ".join(lines), "Wed 18 Nov 11:39", "+60 ms", "AS 174 instead of AS 3356", "asn.csv, 20") == []


def test_steps_are_counted_with_their_explanation(mesh: MeshOfThree) -> None:
    plant_steps(mesh.slac_cern, STEP_AT, -200)

    report = report_of_week()

    (sentence,) = [sentence for sentence in report.sentences if sentence.rule == "routes"]
    assert sentence.figures == {
        "routes.changes": 1, "routes.with_effect": 1, "routes.steps": 2, "routes.explained": 1
    }  # fmt: skip
    assert lacks(sentence.text, "1 route change, 1 with an effect", "1 of 2 RTT steps") == []


def test_a_report_without_traces_says_nothing_of_routes() -> None:
    mesh = make_mesh()
    plant_pings(mesh.slac_cern, 60.0)

    report = report_of_week()

    assert report.routes is None
    assert "Routes" not in Text(page.render(report, ENGLISH)).lines
    assert "routes" not in {sentence.rule for sentence in report.sentences}
