"""The queries of the dashboards about many paths, and of the alert rules: the answers computed by hand from the
rows in `tests.db.dashboard_rows`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import isnan, nan
from typing import Any

import pytest
from django.db.models.functions import Now

from monitor.alerts.evidence.words import lasted_s as lasted_s_of
from monitor.alerts.models import Incident, IncidentPath
from monitor.archive.models import BurstHour, CentreSample, DirtyHour, DirtySummary
from monitor.mesh import models
from monitor.mesh.models import Group, MeasurementPeriod
from monitor.present.conditions import Condition
from tests.db.dashboard_rows import COUNTS, DAY, HOURS, NOON, PINGED, SINCE, UNTIL, make_rows, variables
from tests.db.grafana import about, of_dashboard, run
from tests.db.mesh_of_three import MeshOfThree
from tests.db.track_rows import store_track


@pytest.fixture
def mesh(db: None) -> MeshOfThree:
    """With every kind of row that a dashboard queries."""
    return make_rows()


def answer(
    dashboard: str, where: str, three: MeshOfThree, *, since: datetime = SINCE, until: datetime = UNTIL, **changed: str
) -> list[tuple[Any, ...]]:
    """The rows of a query, without their columns' names."""
    records = run(of_dashboard(dashboard)[where], variables(three, **changed), since, until)
    return [tuple(row.values()) for row in records]


BY_HOUR = SINCE - timedelta(hours=2)
"""The begin of a period of more than three hours, of which the summaries are pooled."""


def like(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(about(value) for value in row) for row in rows]


# --- the mesh

LOSS = "Packet loss matrix (% of packets sent)/A"
RTT = "Mean RTT matrix (ms)/A"
THROUGHPUT = "Throughput matrix (bit/s)/A"


@pytest.mark.parametrize(("where", "figures"), [(LOSS, (1.0, 0.01, 0.0)), (RTT, (None, 10, 20))])
def test_a_matrix_has_sources_and_destinations_in_one_order(
    where: str, figures: tuple[float | None, ...], mesh: MeshOfThree
) -> None:
    to_anl, to_cern, to_slac = figures

    rows = answer("mesh", where, mesh, since=BY_HOUR)

    assert rows == like(
        [
            ("cern", "anl", nan),
            ("cern", "cern", -1),
            ("cern", "slac", to_slac),
            ("slac", "anl", to_anl),
            ("slac", "cern", to_cern),
            ("slac", "slac", -1),
        ]
    )


@pytest.mark.parametrize("dashboard", ["mesh", "throughput"])
def test_the_group_variable_begins_with_all_paths(dashboard: str, mesh: MeshOfThree) -> None:
    Group.objects.create(name="bases", shape="star").sites.set([mesh.slac])

    assert answer(dashboard, "$group", mesh) == [("All", "*"), ("bases", "bases"), ("labs", "labs")]


def test_a_group_of_all_sites_is_not_offered_beside_all(mesh: MeshOfThree) -> None:
    Group.objects.create(name="all", shape="mesh").sites.set(models.Site.objects.all())

    assert answer("mesh", "$group", mesh) == [("All", "*"), ("labs", "labs")]


def test_the_conditions_are_those_of_the_present(mesh: MeshOfThree) -> None:
    store_track(mesh.slac_cern, Condition.BAD)
    store_track(mesh.slac_anl, Condition.DEAD)

    conditions = {(source, to): number for source, to, number in answer("mesh", "Condition now/A", mesh)}

    assert (conditions["slac", "cern"], conditions["slac", "anl"]) == (Condition.BAD, Condition.DEAD)
    assert conditions["cern", "slac"] is None, "nothing is known yet"
    assert conditions["slac", "slac"] == -1
    assert isnan(conditions["cern", "anl"])


@pytest.mark.parametrize(("sites", "first"), [(20, "s00"), (25, "s24")])
def test_beyond_24_sites_the_worst_come_first(sites: int, first: str, mesh: MeshOfThree) -> None:
    names = [f"s{number:02}" for number in range(sites)]
    hosts = [
        models.Host.objects.create(
            site=models.Site.objects.create(
                name=name, title=name, latitude_deg=0, longitude_deg=0, has_agent=True
            ),
            name=name, address=f"2001:db8::{name[1:]}", family=6,
        )
        for name in names
    ]  # fmt: skip
    paths = [models.Path(source=a, destination=b, family=6) for a in hosts for b in hosts if a != b]
    models.Path.objects.bulk_create(paths)
    BurstHour.objects.bulk_create(
        BurstHour(
            path_id=path.pk, packet_bytes=100, hour=HOURS[0], sent=600, rtt_avg_ms=10.0, **PINGED, **COUNTS,
            received=300 if (path.source, path.destination) == (hosts[-1], hosts[-2]) else 600,
        )
        for path in paths
    )  # fmt: skip

    rows = answer("mesh", LOSS, mesh, since=BY_HOUR, family="6")

    assert len(rows) == sites**2
    assert rows[0][0] == first
    assert rows[0][1] == ("s23" if sites == 25 else "s00")


def test_the_page_of_a_site_and_itself_is_the_home_page(mesh: MeshOfThree) -> None:
    path_id = mesh.slac_cern.pk

    [(page,)] = answer("paths", "$path_page", mesh)

    assert page == f"/paths/{path_id}/?size=100&since={SINCE:%Y-%m-%dT%H:%M}&until={UNTIL:%Y-%m-%dT%H:%M}"
    assert answer("paths", "$path_page", mesh, path="") == [("/",)]


def test_the_map_has_each_site_with_loss_and_open_incidents(mesh: MeshOfThree) -> None:
    models.Site.objects.filter(pk=mesh.cern.pk).update(latitude_deg=46.2, longitude_deg=6.1)

    assert answer("mesh", "Sites/A", mesh, since=BY_HOUR) == like(
        [
            ("anl", "ANL", 0, 0, 1.0, 1),
            ("cern", "CERN", 46.2, 6.1, 12 / 2400, 1),
            ("slac", "SLAC", 0, 0, 612 / 3000, 1),
        ]
    )


def test_the_site_variable_ends_with_retired_sites(mesh: MeshOfThree) -> None:
    for name, title in (("slac", "Stanford"), ("anl", "Argonne"), ("cern", "A former member")):
        models.Site.objects.filter(name=name).update(title=title)
    models.Site.objects.filter(pk=mesh.cern.pk).update(retired_at=NOON)

    assert answer("site", "$site", mesh) == [
        ("Argonne", "anl"),
        ("Stanford", "slac"),
        ("A former member (retired)", "cern"),
    ]


def test_the_matrix_of_throughput_has_the_mean_of_the_tests(mesh: MeshOfThree) -> None:
    rates = {(source, destination): bps for source, destination, bps in answer("mesh", THROUGHPUT, mesh)}

    assert rates["slac", "cern"] == 2e7
    assert rates["slac", "anl"] is None
    assert rates["slac", "slac"] == -1
    assert isnan(rates["cern", "anl"])


def test_a_group_has_the_paths_between_its_sites(mesh: MeshOfThree) -> None:
    rows = answer("mesh", LOSS, mesh, group="labs")

    assert [row[:2] for row in rows] == [("cern", "cern"), ("cern", "slac"), ("slac", "cern"), ("slac", "slac")]
    assert answer("mesh", LOSS, mesh, group="none such") == []


@pytest.mark.parametrize("days", [0, 3, 120])
def test_a_longer_period_of_the_same_bursts_gives_the_same(days: int, mesh: MeshOfThree) -> None:
    """From hours, days and months."""
    rows = answer("mesh", "Overview/A", mesh, since=BY_HOUR - timedelta(days=days))

    # 12 and 600 of 3,000 lost; 60 + 60 + 30 bursts an hour of 180.
    assert [row[:-1] for row in rows] == like([(3.0, 3.0, 612 / 3000, 150 / 180, 1.0, 2.0)])


def test_the_worst_paths_are_those_with_loss(mesh: MeshOfThree) -> None:
    rows = answer("mesh", "Paths with the highest loss/A", mesh, since=BY_HOUR)

    anl, cern = str(mesh.slac_anl.pk), str(mesh.slac_cern.pk)
    assert rows == like(
        [
            ("slac", "anl", "slac → anl", "4", anl, 1.0, None, 60.0, 60.0),
            ("slac", "cern", "slac → cern", "4", cern, 0.01, 10.0, 0.0, 120.0),
        ]
    )


def test_open_incidents_are_confirmed_and_not_closed(mesh: MeshOfThree) -> None:
    number = str(Incident.objects.get(rule="unreachable").pk)
    for dashboard in ("mesh", "alerts"):
        assert answer(dashboard, "Open incidents/A", mesh) == [
            (HOURS[1], "warning", "open", "anl unreachable", 2, number)
        ]


# --- a site


def test_a_site_shows_its_outgoing_and_incoming_paths(mesh: MeshOfThree) -> None:
    rows = answer("site", "Paths, outgoing and incoming/A", mesh, since=BY_HOUR)

    assert [(row[0], row[1], *row[5:]) for row in rows] == like(
        [
            ("slac", "anl", 1.0, None, None, None, None, 0.5),
            ("slac", "cern", 0.01, None, 8.0, 10.0, 2e7, 1.0),
            ("cern", "slac", None, 3 / 1200, 18.0, 20.0, None, 1.0),
        ]
    )


def test_a_site_pools_the_loss_of_its_paths_by_direction(mesh: MeshOfThree) -> None:
    rows = answer("site", "Packet loss, all paths (% of packets sent)/A", mesh, since=BY_HOUR)

    before = [(at, None, None) for at in (BY_HOUR, BY_HOUR + timedelta(hours=1))]
    closing = (UNTIL, 306 / 900, 0.0)
    assert rows == like([*before, (HOURS[0], 306 / 900, 0.0), (HOURS[1], 306 / 900, 0.0), closing])


def test_an_interval_without_measurements_is_a_gap(mesh: MeshOfThree) -> None:
    rows = answer("site", "Coverage (bursts)/A", mesh, since=SINCE - timedelta(hours=1))

    # 60 + 30 bursts of the 120 planned.
    nothing = (SINCE - timedelta(hours=1), None, None, None, None)
    assert rows == [nothing, (HOURS[0], 90, 0, 0, 30), (HOURS[1], 90, 0, 0, 30)]


def test_the_agent_of_a_site_has_its_last_reported_state(mesh: MeshOfThree) -> None:
    [(silent_s, *rest)] = answer("site", "Agent/A", mesh)

    assert silent_s > 3600
    assert rest == ["0.1.0", 7, 2, 0.25, 3, 1.5]
    assert answer("site", "Agent/A", mesh, site="anl") == []


def test_deliveries_of_a_site_are_counted_by_day(mesh: MeshOfThree) -> None:
    """Sequences 81 to 90 never arrived."""
    assert answer("site", "Completeness, by day (results)/A", mesh) == [(SINCE, 90, 10)]
    assert answer("alerts", "Completeness, by site/A", mesh) == [("slac", 90, 10, 0.9)]


def test_incidents_of_a_site_are_those_of_its_paths(mesh: MeshOfThree) -> None:
    assert [row[2] for row in answer("site", "Incidents, newest first/A", mesh, site="anl")] == ["anl unreachable"]
    assert [row[2] for row in answer("site", "@Incidents", mesh, site="anl")] == ["anl unreachable"]
    assert [row[2] for row in answer("site", "@Incidents", mesh)] == ["slac → cern loss", "anl unreachable"]


# --- throughput


def test_a_path_with_tests_has_measured_and_expected_throughput(mesh: MeshOfThree) -> None:
    [row] = answer("throughput", "Tested paths, slowest first/A", mesh, since=BY_HOUR)

    # Mathis with C = 1: 1460 bytes over 10 ms and the root of 1%.
    assert row[5:] == tuple(about(value) for value in (2.0, 2.0, 2e7, 3e7, 1460 * 8 / (0.010 * 0.1), None, 1e8))


def test_the_outcomes_of_planned_tests_are_counted(mesh: MeshOfThree) -> None:
    assert answer("throughput", "Test outcomes (tests)/A", mesh) == [
        (HOURS[0], 1, 0, 0),
        (HOURS[1], 1, 0, 1),
    ]
    assert answer("throughput", "Limiting factors/A", mesh) == [("loss", 1, 1), ("window", 1, 1)]


# --- alerts and completeness


def test_incidents_are_counted_by_day_and_rule(mesh: MeshOfThree) -> None:
    rows = answer("alerts", "Incidents opened, by day and rule (incidents)/A", mesh, since=SINCE - timedelta(days=1))

    before = SINCE - timedelta(days=1)
    assert rows == [(before, "loss", 0), (before, "unreachable", 0), (DAY, "loss", 1), (DAY, "unreachable", 1)]
    assert answer("alerts", "Incidents opened, by day and rule (incidents)/A", mesh, since=before, until=before) == []


def test_the_history_has_duration_and_cause(mesh: MeshOfThree) -> None:
    [lasting, (opened_at, closed_at, lasted_s, severity, title, why, _)] = answer(
        "alerts", "Incidents, newest first/A", mesh
    )

    assert (opened_at, closed_at, lasted_s) == (SINCE, SINCE + timedelta(minutes=10), 660)
    assert [lasted_s] == [lasted_s_of(incident, UNTIL) for incident in Incident.objects.exclude(closed_at=None)]
    assert lasting[2] > (UNTIL - HOURS[1]).total_seconds(), "until now"
    assert (severity, title, why) == ("warning", "slac → cern loss", "well again")


def test_the_path_with_most_incidents_is_first(mesh: MeshOfThree) -> None:
    rows = answer("alerts", "Paths with the most incidents/A", mesh)

    assert [(row[2], *row[5:]) for row in rows] == [
        ("slac → cern", 2, "loss, unreachable"),
        ("slac → anl", 1, "unreachable"),
    ]


def test_the_plan_of_a_site_is_counted_over_all_its_paths(mesh: MeshOfThree) -> None:
    assert answer("alerts", "Measurement coverage, by site/A", mesh) == [
        ("slac", 240, 180, 0, 0.75),
        ("cern", 120, 120, 0, 1.0),
    ]
    assert answer("alerts", "Rejected results/A", mesh) == [("slac", "path 9 is unknown", 1, NOON - timedelta(hours=1))]


# --- the system

STEPPED = [
    ("Ingest rate (results/s)/A", (10.0, 0.1), (1.0, 0.0)),
    ("Lag (s)/A", (20.0, 90.0), (20.0, 30.0)),
    ("Centre backlog (tasks, hours)/A", (4.0, 1.0), (None, 0.0)),
    ("Agent backlog (results)/A", (7.0,), (7.0,)),
    ("Database size (bytes)/A", (1e9,), (1e9,)),
]


@pytest.mark.parametrize(("where", "before_noon", "at_noon"), STEPPED)
def test_the_centres_samples_follow_the_panels_interval(
    where: str, before_noon: tuple[Any, ...], at_noon: tuple[Any, ...], mesh: MeshOfThree
) -> None:
    rows = answer("system", where, mesh)

    assert rows == like([(HOURS[1].timestamp(), *before_noon), (NOON.timestamp(), *at_noon)])


def test_the_spool_of_each_site_is_shown_for_the_last_day_only(mesh: MeshOfThree) -> None:
    where = "Backlog by agent, last day of the period (results)/A"

    assert answer("system", where, mesh) == [(HOURS[1].timestamp(), "slac", 7)]
    assert answer("system", where, mesh, until=NOON + timedelta(hours=23, minutes=30)) == []


def test_the_current_state_of_the_system(mesh: MeshOfThree) -> None:
    [(worker_s, delivery_s, waiting, queued, database_bytes)] = answer("system", "Status/A", mesh)
    agents = answer("system", "Agents, longest silent first/A", mesh)

    assert 0 < worker_s < delivery_s
    assert (waiting, queued, database_bytes) == (1, 7, 1e9)
    assert agents[0] == ("cern", *[None] * 10)
    assert (agents[1][0], *agents[1][2:]) == ("slac", "0.1.0", 7, 2, 1, 3, 0.25, "yes", 1.5, 2)


# --- alert rules


def test_the_alert_rule_fires_for_each_open_incident(mesh: MeshOfThree) -> None:
    incident = Incident.objects.get(rule="unreachable")

    before = answer("alert rules", "soundings-incident", mesh)
    incident.rule, incident.severity, incident.cause, incident.title = "loss", "critical", "slac", "another"
    incident.save()

    page = f"http://localhost:8000/incidents/{incident.pk}/"
    assert before == [(str(incident.pk), page, "x", 2)]
    assert answer("alert rules", "soundings-incident", mesh) == before, "Grafana would notify again"


def test_the_systems_alert_rules_return_durations(mesh: MeshOfThree) -> None:
    [(site, silent_s)] = answer("alert rules", "soundings-agent-silent", mesh)
    [(stopped_s,)] = answer("alert rules", "soundings-centre-stopped", mesh)
    [(waited_s,)] = answer("alert rules", "soundings-summaries-behind", mesh)

    assert site == "slac"
    assert silent_s == pytest.approx(waited_s, abs=5)
    assert 3600 < silent_s - stopped_s + 1 < 3700


@pytest.mark.parametrize("dashboard", ["alerts", "mesh", "paths", "site", "system", "throughput"])
def test_a_dashboard_shows_since_when_summaries_lack_results(dashboard: str, mesh: MeshOfThree) -> None:
    now = datetime.now(UTC)
    period = {"since": now - timedelta(hours=4), "until": now}
    DirtyHour.objects.update(marked_at=now - timedelta(minutes=4))

    [(since, until, text, _)] = answer(dashboard, "@Summaries behind", mesh, **period)

    assert since == now - timedelta(minutes=4)
    # The database's time is that of the beginning of the test.
    assert now - timedelta(minutes=1) < until <= now
    assert f"as of {since:%Y-%m-%d %H:%M:%S} UTC" in text
    earlier = {"since": now - timedelta(hours=2), "until": now - timedelta(hours=1)}
    assert answer(dashboard, "@Summaries behind", mesh, **earlier) == []
    DirtyHour.objects.update(marked_at=now - timedelta(seconds=30))
    assert answer(dashboard, "@Summaries behind", mesh, **period) == []


def test_the_overview_has_how_long_results_wait_for_their_summary(mesh: MeshOfThree) -> None:
    DirtyHour.objects.update(marked_at=datetime.now(UTC) - timedelta(minutes=4))
    behind_s = answer("mesh", "Overview/A", mesh, since=BY_HOUR)[0][-1]
    DirtyHour.objects.all().delete()

    assert behind_s == pytest.approx(240, abs=20)
    assert answer("mesh", "Overview/A", mesh, since=BY_HOUR)[0][-1] == 0


def test_only_the_summaries_of_the_periods_figures_count_as_behind(mesh: MeshOfThree) -> None:
    DirtyHour.objects.update(marked_at=datetime.now(UTC) - timedelta(minutes=4))
    of_bursts, of_days = SINCE, SINCE - timedelta(days=7)
    for since in (of_bursts, of_days):
        assert answer("mesh", "Overview/A", mesh, since=since)[0][-1] == 0
        assert answer("mesh", "@Summaries behind", mesh, since=since) == []
    DirtySummary.objects.create(
        path_id=1, tier="day", starts_at=DAY, marked_at=datetime.now(UTC) - timedelta(minutes=30)
    )

    assert answer("mesh", "Overview/A", mesh, since=of_days)[0][-1] == pytest.approx(1800, abs=20)


def test_open_incidents_are_those_of_the_selected_group(mesh: MeshOfThree) -> None:
    IncidentPath.objects.filter(path=mesh.slac_cern).delete()

    assert answer("mesh", "Overview/A", mesh)[0][4] == 1
    assert answer("mesh", "Overview/A", mesh, group="labs")[0][4] == 0
    assert answer("mesh", "Open incidents/A", mesh, group="labs") == []
    assert len(answer("alerts", "Open incidents/A", mesh, group="labs")) == 1


def test_a_running_day_that_waits_for_its_summary_is_not_overdue(mesh: MeshOfThree) -> None:
    DirtyHour.objects.update(marked_at=Now())
    DirtySummary.objects.create(
        path_id=1, tier="day", starts_at=DAY, marked_at=datetime.now(UTC) - timedelta(minutes=15)
    )

    assert answer("system", "Status/A", mesh)[0][2] == 0
    DirtySummary.objects.update(marked_at=datetime.now(UTC) - timedelta(minutes=30))
    assert answer("system", "Status/A", mesh)[0][2] == 1


def test_a_centre_without_samples_gives_no_row(mesh: MeshOfThree) -> None:
    """The alert rule treats no row as an alert."""
    CentreSample.objects.all().delete()

    assert answer("alert rules", "soundings-centre-stopped", mesh) == []


def test_a_path_without_a_plan_is_not_called_complete(mesh: MeshOfThree) -> None:
    MeasurementPeriod.objects.all().delete()

    assert {row[-1] for row in answer("site", "Paths, outgoing and incoming/A", mesh)} == {None}
    assert {row[-1] for row in answer("alerts", "Measurement coverage, by site/A", mesh)} == {None}
    assert answer("mesh", "Overview/A", mesh)[0][3] is None
