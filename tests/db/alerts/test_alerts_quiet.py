"""Silence, maintenance and acknowledgement: their effect, and the record of who did it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from monitor.alerts.evaluate import Evaluation, evaluate
from monitor.alerts.incidents import actions, corrections, lifecycle, quiet
from monitor.alerts.incidents.actions import ActionRefused, QuietScope
from monitor.alerts.models import AuditRecord, Incident, IncidentState, Notification, QuietPeriod
from monitor.alerts.scope import scope_now
from monitor.mesh.models import Group, Site
from tests.db.alert_rows import make_bursts, make_mesh
from tests.facts import lacks

NOW = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)
WINDOW = timedelta(seconds=600)
HOUR = timedelta(hours=1)
RULE = {"above_ratio": 0.01, "window_s": 600}

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def confirmed_at_once(monkeypatch):
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)


@pytest.fixture
def paths():
    paths = make_mesh(["slac", "cern", "fnal"], NOW - timedelta(days=30), loss=RULE)
    group = Group.objects.create(name="coast", shape="mesh")
    group.sites.set(Site.objects.filter(name__in=["slac", "cern"]))
    return paths


def lossy(path, until, lost=2):
    make_bursts(path, [lost] * 10, until - WINDOW)


def quiet_names(now=NOW):
    scope = scope_now()
    quiet_paths = quiet.quiet_paths_at(now, scope.pinged)
    return (
        {scope.pinged[path_id].name for path_id in quiet_paths.in_maintenance},
        {scope.pinged[path_id].name for path_id in quiet_paths.silenced},
    )


def notified() -> list[str]:
    return list(Notification.objects.order_by("pk").values_list("change", flat=True))


def test_a_silence_covers_a_path_a_site_a_group_or_the_mesh(paths):
    out = paths["slac → cern"]
    cern, coast = Site.objects.get(name="cern"), Group.objects.get(name="coast")
    expected = {
        QuietScope(path=out): {"slac → cern"},
        QuietScope(site=cern): {"slac → cern", "cern → slac", "cern → fnal", "fnal → cern"},
        QuietScope(group=coast): {"slac → cern", "cern → slac"},
        QuietScope(): set(paths),
    }

    for scope, names in expected.items():
        silence = actions.silence(scope, NOW + HOUR, "", "les", NOW)
        assert quiet_names() == (set(), names)
        actions.end(silence.pk, "les", NOW)
        assert quiet_names() == (set(), set())


def test_a_silence_expires_by_itself(paths):
    actions.silence(QuietScope(), NOW + HOUR, "", "les", NOW)

    assert quiet_names(NOW + HOUR - timedelta(seconds=1))[1]
    assert not quiet_names(NOW + HOUR)[1]


def test_a_recurring_maintenance_repeats_until_its_last_date(paths):
    """Mondays from two to four, for three weeks."""
    monday = datetime(2026, 11, 23, 2, tzinfo=UTC)
    week = timedelta(weeks=1)
    actions.maintain(
        QuietScope(), monday, monday + 2 * HOUR, "updates", "les", NOW, every=week, until=monday + 3 * week
    )

    in_force = [
        weeks
        for weeks in range(5)
        if quiet_names(monday + weeks * week)[0] and quiet_names(monday + weeks * week + 1.9 * HOUR)[0]
    ]

    assert in_force == [0, 1, 2]
    assert not quiet_names(monday + 2 * HOUR)[0]
    assert not quiet_names(monday - timedelta(seconds=1))[0]


def test_an_incident_in_a_silence_is_notified_after_its_end(paths):
    actions.silence(QuietScope(path=paths["slac → cern"]), NOW + HOUR, "known", "les", NOW)
    lossy(paths["slac → cern"], NOW)

    assert evaluate(NOW).opened == 1
    assert notified() == []
    lossy(paths["slac → cern"], NOW + HOUR)
    evaluate(NOW + HOUR)

    assert notified() == ["opened"]


def test_an_incident_with_an_unsilenced_path_is_notified(paths):
    actions.silence(QuietScope(path=paths["slac → cern"]), NOW + HOUR, "known", "les", NOW)
    lossy(paths["slac → cern"], NOW)
    lossy(paths["cern → slac"], NOW)

    evaluate(NOW)

    assert notified() == ["opened"]


def test_in_maintenance_nothing_opens(paths):
    actions.maintain(QuietScope(group=Group.objects.get()), NOW - HOUR, NOW + HOUR, "new router", "les", NOW)
    lossy(paths["slac → cern"], NOW)
    lossy(paths["slac → fnal"], NOW)

    evaluate(NOW)

    assert [incident.cause for incident in Incident.objects.all()] == ["fnal ↔ slac"]


def test_loss_during_maintenance_opens_nothing_after_it(paths):
    """Windows of hours still contain it."""
    actions.maintain(QuietScope(), NOW - HOUR, NOW, "new router", "les", NOW - 2 * HOUR)
    lossy(paths["slac → cern"], NOW, lost=10)

    assert evaluate(NOW + timedelta(minutes=1)) == Evaluation(opened=0, closed=0)
    assert not Incident.objects.exists()

    lossy(paths["slac → cern"], NOW + WINDOW)
    assert evaluate(NOW + WINDOW).opened == 1, "loss after the maintenance opens an incident"


def test_a_cancelled_maintenance_has_no_effect(paths):
    maintenance = actions.maintain(QuietScope(), NOW - HOUR, NOW + HOUR, "new router", "les", NOW - 3 * HOUR)
    actions.end(maintenance.pk, "les", NOW - 2 * HOUR)

    assert quiet.maintained_s(NOW - 24 * HOUR, NOW, scope_now().pinged) == {}


def test_the_last_time_of_every_kind_of_maintenance_is_known():
    """Compared with checking each minute whether it is active."""
    minute = timedelta(minutes=1)
    for every_s, until, ended_at in product(
        (None, 3600), (None, NOW + 250 * minute, NOW + 190 * minute), (None, NOW + 130 * minute, NOW + 5 * minute)
    ):
        quiet = QuietPeriod(
            starts_at=NOW, ends_at=NOW + 20 * minute, every_s=every_s, until=until if every_s else None,
            ended_at=ended_at,
        )  # fmt: skip
        for now in (NOW + number * minute for number in (0, 3, 20, 70, 130, 185, 400)):
            active = [at for at in (NOW + number * minute for number in range(401)) if at < now and quiet.holds_at(at)]
            assert quiet.held_until(now) == (active[-1] + minute if active else NOW)


def test_open_incidents_still_end_in_maintenance(paths):
    lossy(paths["slac → cern"], NOW)
    evaluate(NOW)
    actions.maintain(QuietScope(), NOW, NOW + HOUR, "", "les", NOW)
    lossy(paths["slac → cern"], NOW + WINDOW, lost=0)

    assert evaluate(NOW + WINDOW).closed == 1

    assert Incident.objects.get().state == IncidentState.RESOLVED
    assert notified() == ["opened"], "in maintenance nothing is notified, the end neither"


def test_each_action_is_recorded_with_the_person(paths):
    lossy(paths["slac → cern"], NOW)
    evaluate(NOW)
    incident = Incident.objects.get()

    actions.acknowledge(incident.pk, "les", NOW)
    made = actions.silence(QuietScope(site=Site.objects.get(name="cern")), NOW + HOUR, "fibre cut", "warren", NOW)
    actions.end(made.pk, "les", NOW + timedelta(minutes=5))

    first, second, third = AuditRecord.objects.order_by("pk").values_list("who", "what")
    assert first == ("les", f"acknowledged incident {incident.pk}")
    assert second[0] == "warren"
    period = ("for cern from 2026-11-21 10:05", "to 2026-11-21 11:05 UTC")
    assert lacks(second[1], f"made silence {made.pk} ", *period) == []
    assert third == ("les", f"ended silence {made.pk}")


def test_an_impossible_action_has_a_reason_and_no_record(paths):
    lossy(paths["slac → cern"], NOW)
    evaluate(NOW)
    incident = Incident.objects.get()
    actions.acknowledge(incident.pk, "les", NOW)
    site, group = Site.objects.get(name="cern"), Group.objects.get()
    attempts = {
        "les acknowledged incident": lambda: actions.acknowledge(incident.pk, "warren", NOW),
        "there is no incident 0": lambda: actions.acknowledge(0, "warren", NOW),
        "before it starts.*in the past": lambda: actions.silence(QuietScope(), NOW, "", "warren", NOW),
        "not several": lambda: actions.silence(QuietScope(site=site, group=group), NOW + HOUR, "", "warren", NOW),
        "longer than.*repeat interval.* 60 min": lambda: actions.maintain(
            QuietScope(), NOW, NOW + 2 * HOUR, "", "warren", NOW, every=HOUR
        ),
        "no active silence or maintenance 0": lambda: actions.end(0, "warren", NOW),
    }

    for words, attempt in attempts.items():
        with pytest.raises(ActionRefused, match=words):
            attempt()

    assert [audit_record.who for audit_record in AuditRecord.objects.all()] == ["les"]


class TestCorrections:
    def test_late_results_correct_an_incident_without_ending_it(self, paths):
        """10 of 100 lost; with 1,000 more packets that all arrived it is 0.9%, which is not above 1%."""
        out = paths["slac → cern"]
        lossy(out, NOW)
        evaluate(NOW)
        assert corrections.correct(NOW) == 0
        make_bursts(out, [0] * 100, NOW - WINDOW, every_s=5, packet_bytes=1000)

        assert corrections.correct(NOW) == 1
        assert corrections.correct(NOW) == 0

        incident = Incident.objects.get()
        assert incident.closed_at is None
        assert lacks(incident.correction, "slac → cern", "late results", "loss 1.8%", "(20 of 1,100 packets") == []
        assert incident.correction.endswith("below threshold")

    def test_the_cycle_on_its_way_at_an_evaluation_is_not_late(self, paths):
        """The newest burst of every path arrives seconds after it was sent."""
        out = paths["slac → cern"]
        lossy(out, NOW)
        evaluate(NOW)
        make_bursts(out, [0], NOW - timedelta(seconds=15), packet_bytes=1000)

        assert corrections.correct(NOW) == 0
        assert Incident.objects.get().correction == ""

    def test_late_results_that_confirm_an_incident_are_recorded(self, paths):
        out = paths["slac → cern"]
        lossy(out, NOW)
        evaluate(NOW)
        make_bursts(out, [1] * 10, NOW - WINDOW, packet_bytes=1000)

        corrections.correct(NOW)

        assert Incident.objects.get().correction.endswith("still above threshold")
