"""From bursts in the database to incidents: openings, closings, and evaluations without effect."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

import pytest

from monitor.agents.models import AgentHealth
from monitor.alerts import tasks
from monitor.alerts.closing import SWITCHED_OFF
from monitor.alerts.detect.rules import loss
from monitor.alerts.detect.rules.finding import RuleFinding
from monitor.alerts.detect.shares import Share
from monitor.alerts.evaluate import Evaluation, evaluate, snapshot_at
from monitor.alerts.evidence.gather import gather_due
from monitor.alerts.history import raised_text
from monitor.alerts.incidents import lifecycle, queries
from monitor.alerts.models import HistoryEvent, Incident, IncidentTurn, Notification
from monitor.alerts.notify.deliver import deliver
from monitor.alerts.other_paths import OtherPaths
from monitor.alerts.scope import scope_now
from monitor.archive.models import Burst
from monitor.archive.upkeep import freshness
from monitor.celery import app
from monitor.mesh.models import Measurement, Mesh
from monitor.overview.mesh_state import load_mesh_state
from monitor.present.follow import Follower
from tests.db.alert_rows import at_once, make_bursts, make_mesh, only
from tests.db.finding_levels import level_of
from tests.db.notify_servers import http_server
from tests.facts import lacks

NOW = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)
WINDOW = timedelta(seconds=600)
QUERIES = 48
"""The mesh, paths pinged and tested with their groups (4), those with STAMP, incidents and their paths (2), evaluated
data; recent and hourly counts, those of the running hour, baseline, also of directions, days, RTTs, contacts and their
sites, the AS table; what ended lately, of incidents and of findings (2), and what was maintained; when to be quiet; the
newest bursts and the levels of findings, titles (2); what was judged, whose RTT is no longer raised, what nobody was
told, how the agents are; the version of the mesh (2), what arrived, what rules found; the lock, the mark that it was
done, the lock; and the paths with too few packets or none."""
RULE = {"above_ratio": 0.01, "window_s": 600}

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def confirmed_at_once(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)


@pytest.fixture
def paths():
    return make_mesh(["slac", "cern", "fnal"], NOW - timedelta(days=30), loss=RULE)


def lossy(path, until, lost=2):
    """Ten bursts of ten packets in the window that ends at `until`, each with `lost` packets lost."""
    make_bursts(path, [lost] * 10, until - WINDOW)


def test_a_lossy_path_opens_an_incident_and_a_healthy_does_not(paths):
    lossy(paths["slac → cern"], NOW)
    lossy(paths["slac → fnal"], NOW, lost=0)

    assert evaluate(NOW) == Evaluation(opened=1, closed=0)

    (incident,) = queries.open_incidents()
    assert (incident.rule, incident.cause) == ("loss", "cern ↔ slac")
    window = (" 10 min", "to 2026-11-21 10:05:00 UTC")
    assert lacks(incident.summary, "slac → cern: loss 20%", "(20 of 100 packets", *window, "at least ") == []


def test_a_single_lost_packet_opens_nothing(paths):
    make_bursts(paths["slac → cern"], [1, 0, 0, 0, 0], NOW - WINDOW)
    make_bursts(paths["slac → fnal"], [1], NOW - WINDOW)

    assert evaluate(NOW) == Evaluation(opened=0, closed=0)


def test_both_directions_of_a_pair_share_an_incident(paths):
    for name in paths:
        lossy(paths[name], NOW, lost=2 if name in ("slac → cern", "cern → slac", "fnal → cern") else 0)

    assert evaluate(NOW).opened == 2

    assert sorted((incident.cause, incident.paths.count()) for incident in Incident.objects.all()) == [
        ("cern ↔ fnal", 1),
        ("cern ↔ slac", 2),
    ]


def test_paths_of_a_site_losing_together_share_an_incident(paths):
    for name in paths:
        lossy(paths[name], NOW, lost=2 if name.startswith("cern") else 0)

    assert evaluate(NOW).opened == 1

    incident = Incident.objects.get()
    assert (incident.cause, incident.paths.count()) == ("cern outbound", 2)
    shares = ("cern outbound: 2 of 2 paths", "inbound normal (2 paths)", "all other paths normal (2 paths)")
    excluded = ("pings from other sites to cern", "are normal", "check the agent of cern and its host")
    assert lacks(incident.summary, *shares, *excluded, "cern → fnal: loss ") == []


def test_counts_of_other_paths_are_stored_with_the_incident(paths):
    for name in paths:
        make_bursts(paths[name], [0] * 60, NOW - WINDOW - timedelta(hours=1))
        lossy(paths[name], NOW, lost=2 if name.startswith("cern") else 0)
    evaluate(NOW)

    assert Incident.objects.get().shares == [
        {"where": "other paths from cern", "bad": 0, "known": 0},
        {"where": "paths to cern", "bad": 0, "known": 2},
        {"where": "elsewhere", "bad": 0, "known": 2},
    ]


def shares_of(path):
    return {share["where"]: (share["bad"], share["known"]) for share in Incident.objects.get(paths__path=path).shares}


def test_a_path_that_loses_without_an_alarm_is_not_called_normal(paths):
    """Both paths of a pair lose 5%; the reverse path has sent too few packets since for an alarm."""
    for name, path in paths.items():
        make_bursts(path, [0] * 60, NOW - timedelta(hours=2))
        if name == "cern → slac":
            make_bursts(path, [1, 0] * 4, NOW - timedelta(seconds=80), every_s=10)
        else:
            make_bursts(path, [int(name == "slac → cern"), 0] * 30, NOW - WINDOW, every_s=10)
    evaluate(NOW)

    (incident,) = queries.open_incidents()
    assert list(incident.paths.values_list("path_id", flat=True)) == [paths["slac → cern"].pk]
    assert [Share(**share).text for share in incident.shares] == [
        "paths from cern: not clear yet for 1 of 2 paths, 1 normal",
        "other paths to cern: normal (1 path)",
        "other paths from slac: normal (1 path)",
        "paths to slac: not clear yet for 1 of 2 paths, 1 normal",
    ]
    tally = load_mesh_state(freshness.load(), NOW).tally
    assert (tally.with_problems, tally.checked, tally.normal) == (1, 1, 4)


def test_a_path_that_is_normal_again_is_not_counted_as_bad(paths):
    # Half of the packets of a path are lost for ten minutes; four minutes after its end another path loses.
    end = NOW - timedelta(minutes=4)
    for name in ("slac → fnal", "cern → slac", "cern → fnal", "fnal → cern"):
        lossy(paths[name], NOW, lost=0)
    lossy(paths["fnal → slac"], end, lost=5)
    evaluate(end)
    make_bursts(paths["fnal → slac"], [0] * 5, end)
    evaluate(NOW - timedelta(seconds=10))
    lossy(paths["slac → cern"], NOW)
    evaluate(NOW)

    assert Incident.objects.filter(closed_at=None).count() == 2
    assert shares_of(paths["slac → cern"])["paths to slac"] == (0, 2)


def test_paths_of_other_incidents_are_not_called_normal(paths):
    """The agent of fnal delivers nothing while a path between others loses."""
    Mesh.objects.update(alerts={**Mesh.objects.get().alerts, "no_data": {"after_s": 900}})
    for name, path in paths.items():
        if name.startswith("fnal"):
            make_bursts(path, [0] * 100, NOW - timedelta(minutes=120))
        else:
            lossy(path, NOW, lost=2 if name == "slac → cern" else 0)
    evaluate(NOW)

    agent = Incident.objects.get(cause="agent of fnal")
    assert Share(**agent.shares[-1]).text == "all other paths normal (1 path), but for 1 of other incidents"
    assert "all other paths normal (1 path), but for 1 of other incidents" in agent.summary
    loss = Incident.objects.get(paths__rule="loss")
    texts = [Share(**share).text for share in loss.shares]
    assert any(text.startswith("paths to slac: ") and ", but for 1 of other incidents" in text for text in texts)


def test_the_reverse_path_of_a_delay_is_not_called_normal(monkeypatch):
    """A round trip crosses both directions, also where the delay of one path alone has an alarm."""
    paths = make_mesh(["slac", "cern", "fnal"], NOW - timedelta(hours=1), rtt={})
    scope = scope_now()
    snapshot = snapshot_at(NOW, scope, {})
    others = OtherPaths([], [], snapshot)
    monkeypatch.setattr("monitor.alerts.detect.causes.paths_without_bursts", lambda _: frozenset())

    shares = others.shares([(paths["slac → cern"].pk, "rtt")])

    assert [share.text for share in shares] == [
        "other paths from cern: normal (1 path)",
        "other paths to cern: normal (1 path)",
        "other paths from slac: normal (1 path)",
        "other paths to slac: normal (1 path)",
    ]


def test_counts_of_other_paths_are_those_of_now_while_it_is_bad(paths):
    # The paths to cern were normal at detection; ten minutes later one loses too, until the incident is over.
    for name in paths:
        lossy(paths[name], NOW, lost=2 if name.startswith("cern") else 0)
    evaluate(NOW)
    outbound = Incident.objects.get()
    for number in (1, 2, 3):
        at = NOW + number * WINDOW
        for name in paths:
            lossy(paths[name], at, lost=2 if name.startswith("cern") or (name == "slac → fnal" and number > 1) else 0)
        evaluate(at)
        evaluate(at + timedelta(seconds=10))
    outbound.refresh_from_db()

    assert outbound.shares == [
        {"where": "other paths from cern", "bad": 0, "known": 0},
        {"where": "paths to cern", "bad": 0, "known": 2},
        {"where": "elsewhere", "bad": 1, "known": 2},
    ]


def test_a_finding_that_joins_and_raises_the_severity_is_in_the_history(paths):
    make_bursts(paths["cern → slac"], [1, 0] * 30, NOW - timedelta(hours=1))
    evaluate(NOW)
    evaluate(NOW + timedelta(seconds=30))
    before = Incident.objects.get()
    lossy(paths["slac → cern"], NOW + WINDOW, lost=3)
    evaluate(NOW + WINDOW)

    after, turn = Incident.objects.get(), IncidentTurn.objects.get(turn=HistoryEvent.WORSENED)
    assert (before.severity, after.severity) == ("warning", "critical")
    assert lacks(turn.note, "warning to critical: slac → cern: loss ") == []
    assert raised_text(queries.incident_with_paths(after.pk)).startswith("warning until ")


def test_a_longer_rtt_elsewhere_is_no_bad_path_of_a_loss(paths):
    figures = {"figure": "median", "before_ms": 20.0, "after_ms": 80.0, "since": (NOW - WINDOW).isoformat()}
    longer = paths["fnal → slac"]
    finding = RuleFinding("rtt", longer.pk, str(longer), "RTT 80 ms", NOW - WINDOW, figures)
    lifecycle.add_findings("fnal ↔ slac", [finding], NOW - timedelta(minutes=5))
    lossy(longer, NOW, lost=0)
    lossy(paths["cern → slac"], NOW, lost=0)
    lossy(paths["slac → cern"], NOW)

    evaluate(NOW)

    assert shares_of(paths["slac → cern"])["paths to slac"] == (0, 1)


def test_an_agent_with_nic_drops_is_the_cause_of_its_own_losses(paths):
    for name in paths:
        lossy(paths[name], NOW, lost=2 if name.startswith("cern") else 0)
    minutes_ago = [(NOW - timedelta(minutes=minutes)).timestamp() for minutes in (9, 1)]
    AgentHealth.objects.create(
        site=paths["cern → slac"].source.site,
        accepted_at=NOW,
        agent_version="1",
        queued=0,
        dropped=0,
        drops_past=[[minutes_ago[0], 5], [minutes_ago[1], 905]],
    )

    evaluate(NOW)

    incident = Incident.objects.get()
    assert incident.cause == "agent of cern"
    assert lacks(incident.summary, "agent of cern itself", " 900 NIC drops", "cern → ") == []


def test_the_severity_of_an_incident_is_its_highest_severity(paths):
    mesh = Mesh.objects.get()
    mesh.alerts = only(loss=RULE | {"severity": "notice"}, unreachable={})
    mesh.save()
    lossy(paths["slac → cern"], NOW)
    evaluate(NOW)
    assert Incident.objects.get().severity == "notice"

    make_bursts(paths["slac → cern"], [10] * 5, NOW)
    evaluate(NOW + timedelta(minutes=5))

    assert Incident.objects.get().severity == "critical"


def test_the_evaluation_does_not_depend_on_notifications(paths, settings, monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("an evaluation sends nothing")

    monkeypatch.setattr("monitor.alerts.notify.channels.send", fail)
    monkeypatch.setattr("monitor.alerts.notify.deliver.deliver", fail)
    settings.NOTIFY_URLS = ["nonsense", "broken=nosuchservice://token"]
    lossy(paths["slac → cern"], NOW)

    assert evaluate(NOW) == Evaluation(opened=1, closed=0)

    assert Notification.objects.count() == 2


def test_a_measurement_leads_to_a_notification_with_evidence(paths, settings):
    for name in paths:
        lossy(paths[name], NOW, lost=0 if name == "fnal → slac" else 2)
    with http_server() as server:
        settings.NOTIFY_URLS = [f"ops=webhook+http://{server.address}/"]
        evaluate(NOW)
        assert gather_due(NOW) == Incident.objects.count()
        deliver(NOW)

    notified = {body["incident"]["id"]: body["incident"] for body in server.bodies}
    assert notified.keys() == set(Incident.objects.values_list("pk", flat=True))
    assert all(message["likely_cause"] and message["where"] and message["began"] for message in notified.values())


def test_another_path_of_a_lasting_cause_joins_its_incident(paths):
    for name in paths:
        lossy(paths[name], NOW, lost=2 if name == "cern → slac" else 0)
    evaluate(NOW)
    lossy(paths["cern → fnal"], NOW + WINDOW)
    lossy(paths["cern → slac"], NOW + WINDOW)

    assert evaluate(NOW + WINDOW).opened == 0

    incident = Incident.objects.get()
    assert (incident.cause, incident.paths.count()) == ("cern outbound", 2)


def test_incidents_explained_by_a_common_cause_are_merged(paths):
    for name in paths:
        lossy(paths[name], NOW, lost=2 if name in ("slac → cern", "cern → fnal") else 0)
    evaluate(NOW)
    assert set(Incident.objects.values_list("cause", flat=True)) == {"cern ↔ slac", "cern ↔ fnal"}

    for name in paths:
        lossy(paths[name], NOW + WINDOW, lost=2 if "cern" in name else 0)
    evaluate(NOW + WINDOW)

    whole = Incident.objects.get(closed_at=None)
    part = Incident.objects.exclude(closed_at=None).get()
    assert (whole.cause, set(whole.path_ids)) == ("cern", {path.pk for name, path in paths.items() if "cern" in name})
    assert part.closing == f"part of incident {whole.pk}: cern"
    assert list(Notification.objects.values_list("change", flat=True)) == ["opened", "opened"]


def test_a_repeated_evaluation_opens_and_notifies_nothing(paths):
    lossy(paths["slac → cern"], NOW)
    evaluate(NOW)

    assert evaluate(NOW + timedelta(seconds=10)) == Evaluation(opened=0, closed=0)


def test_an_incident_closes_when_all_of_its_paths_are_clear(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    lossy(out, NOW)
    lossy(back, NOW)
    evaluate(NOW)
    lossy(out, NOW + WINDOW, lost=0)
    lossy(back, NOW + WINDOW)
    assert evaluate(NOW + WINDOW).closed == 0

    lossy(out, NOW + 2 * WINDOW, lost=0)
    lossy(back, NOW + 2 * WINDOW, lost=0)

    assert evaluate(NOW + 2 * WINDOW) == Evaluation(opened=0, closed=1)
    incident = Incident.objects.get()
    assert incident.closed_at == NOW + 2 * WINDOW
    assert [reason.partition(":")[0] for reason in incident.closing.split("; ")] == ["cern → slac", "slac → cern"]
    assert {level_of(row).over_since for row in incident.paths.all()} == {NOW, NOW + WINDOW}
    assert dict(incident.paths.values_list("path_id", "ended_at")) == {
        out.pk: NOW + WINDOW, back.pk: NOW + 2 * WINDOW,
    }  # fmt: skip


def test_loss_of_a_closed_incident_does_not_open_another(paths):
    out = paths["slac → cern"]
    make_bursts(out, [8] * 10, NOW - WINDOW)
    evaluate(NOW)
    assert Incident.objects.get().closed_at is None
    make_bursts(out, [0] * 40, NOW)

    closed = [evaluate(NOW + number * timedelta(minutes=1)).closed for number in range(1, 40)]

    assert sum(closed) == 1
    incident = Incident.objects.get()
    assert (incident.closed_at is None, incident.reopenings) == (False, 0)
    lost, sent = 80, 300
    assert loss.chances(sent, lost, sent, lost, 0.01) < 1e-9, "a window of half an hour contains it"


def test_loss_above_half_of_the_threshold_keeps_it_open(paths):
    out = paths["slac → cern"]
    lossy(out, NOW)
    evaluate(NOW)
    make_bursts(out, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0], NOW)  # 1% of 100 packets

    assert evaluate(NOW + WINDOW) == Evaluation(opened=0, closed=0)
    assert Incident.objects.get().closed_at is None


def test_missing_data_closes_nothing(paths):
    lossy(paths["slac → cern"], NOW)
    evaluate(NOW)

    assert evaluate(NOW + timedelta(days=1)) == Evaluation(opened=0, closed=0)
    assert Incident.objects.get().closed_at is None


def test_a_few_packets_after_a_gap_close_nothing(paths):
    out = paths["slac → cern"]
    lossy(out, NOW)
    evaluate(NOW)
    make_bursts(out, [0, 0], NOW + timedelta(hours=2))

    assert evaluate(NOW + timedelta(hours=2, minutes=5)).closed == 0


def test_the_incident_of_a_retired_path_closes_with_the_reason(paths):
    out = paths["slac → cern"]
    lossy(out, NOW)
    evaluate(NOW)
    out.retired_at = NOW
    out.save()

    assert evaluate(NOW + timedelta(seconds=10)).closed == 1

    assert lacks(Incident.objects.get().closing, "slac → cern", "retired", "no longer measured") == []


def test_a_path_whose_pings_are_retired_counts_as_retired(paths):
    out = paths["slac → cern"]
    lossy(out, NOW)
    evaluate(NOW)
    Measurement.objects.filter(path=out).update(retired_at=NOW)

    assert evaluate(NOW + timedelta(seconds=10)).closed == 1


def test_a_retired_path_opens_nothing(paths):
    out = paths["slac → cern"]
    lossy(out, NOW)
    out.retired_at = NOW
    out.save()

    assert evaluate(NOW).opened == 0


def test_a_mesh_without_the_rule_closes_its_incidents(paths):
    lossy(paths["slac → cern"], NOW)
    evaluate(NOW)
    Mesh.objects.update(alerts=only())
    lossy(paths["slac → fnal"], NOW)

    assert evaluate(NOW + timedelta(seconds=10)) == Evaluation(opened=0, closed=1)

    assert Incident.objects.get().closing == f"slac → cern: {SWITCHED_OFF}"


def test_before_a_mesh_is_applied_nothing_is_evaluated():
    assert evaluate(NOW) == Evaluation(opened=0, closed=0)


def test_bursts_outside_windows_or_during_tests_do_not_count(paths):
    out, back = paths["slac → cern"], paths["cern → slac"]
    lossy(out, NOW - timedelta(hours=14))
    lossy(back, NOW)
    Burst.objects.filter(path_id=back.pk).update(during_test=True)

    assert evaluate(NOW).opened == 0


@pytest.mark.parametrize("number_of_paths", [1, 6])
def test_evaluating_open_incidents_takes_a_fixed_query_count(paths, django_assert_num_queries, number_of_paths):
    for name in list(paths)[:number_of_paths]:
        lossy(paths[name], NOW)
    follower = Follower()
    evaluate(NOW, follower=follower)

    with django_assert_num_queries(QUERIES):
        evaluate(NOW + timedelta(seconds=10), follower=follower)


@pytest.mark.parametrize("number_of_pairs", [1, 3])
def test_pages_read_incidents_with_two_queries(paths, django_assert_num_queries, number_of_pairs):
    for name in list(paths)[:number_of_pairs]:
        lossy(paths[name], NOW)
    evaluate(NOW)

    with django_assert_num_queries(2):
        pages = [
            (incident.summary, str(row.path), row.path.source.site.name)
            for incident in queries.open_incidents()
            for row in incident.paths.all()
        ]

    assert pages


def test_a_paths_incidents_are_those_open_in_the_period(paths):
    out = paths["slac → cern"]
    lossy(out, NOW)
    evaluate(NOW)
    Incident.objects.update(closed_at=NOW + timedelta(hours=1), closing="over")

    def incident_ids(since_h, until_h, path=out):
        since, until = NOW + timedelta(hours=since_h), NOW + timedelta(hours=until_h)
        return len(queries.incidents_of_path(path.pk, since, until))

    assert incident_ids(-1, 0.5) == 1
    assert incident_ids(0.5, 0.6) == 1
    assert incident_ids(1, 2) == 0, "it had closed at the beginning of the period"
    assert incident_ids(-2, 0) == 0, "it opened at the end of the period, which is not part of it"
    assert incident_ids(-1, 2, path=paths["cern → slac"]) == 1, "it is named after both paths"
    assert incident_ids(-1, 2, path=paths["slac → fnal"]) == 0
    assert [incident.closing for incident in queries.recent_incidents(1)] == ["over"]
    assert queries.open_incidents() == []


def test_the_task_evaluates_now(paths, monkeypatch):
    lossy(paths["slac → cern"], NOW)
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)

    tasks.evaluate_rules()

    assert Incident.objects.get().opened_at == NOW


def test_beat_runs_the_task_by_its_name():
    assert tasks.evaluate_rules.name in {entry["task"] for entry in app.conf.beat_schedule.values()}


@pytest.mark.django_db(transaction=True)
def test_concurrent_evaluators_open_and_notify_once(settings, caplog):
    settings.NOTIFY_URLS = ["log://"]
    for path in make_mesh(["slac", "cern"], NOW - timedelta(days=30), loss=RULE).values():
        lossy(path, NOW)

    with caplog.at_level(logging.INFO, logger="monitor.alerts"):
        evaluations = at_once(4, lambda number: evaluate(NOW))
        delivered = at_once(4, lambda number: deliver(NOW))

    assert sum(evaluation.opened for evaluation in evaluations) == 1
    assert sum(delivered) == 1
    assert [record.name for record in caplog.records].count("monitor.alerts") == 1
    assert [incident.paths.count() for incident in Incident.objects.all()] == [2]
