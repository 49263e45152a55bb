"""Deletion of old records in batches: lasting and needed records stay, and deleted results are not called missing."""

from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection

from monitor.accounts.models import SharedLink, UserToken, issue_user_token
from monitor.agents.models import AgentToken, EnrolmentCode, issue_token
from monitor.alerts.models import (
    AuditRecord,
    DeliveryState,
    Incident,
    IncidentChange,
    IncidentPath,
    IncidentTurn,
    Notification,
    QuietPeriod,
)
from monitor.archive.models import (
    AgentAccount,
    AgentGap,
    CentreSample,
    CycleDay,
    DeliveredDay,
    ReceivedBatch,
    RefusedResult,
    SweepCell,
    ThroughputHour,
    ThroughputSweep,
    ThroughputYear,
)
from monitor.archive.queries.operation import completeness
from monitor.archive.queries.operation.ledger import ledger_of_path
from monitor.archive.rollup.recompute import recompute
from monitor.archive.upkeep import records
from monitor.mesh.models import Host, Slot, SlotHost, SlotRequest
from monitor.reports.models import Delivery as ReportDelivery
from monitor.reports.models import Subscriber
from probes.contract import Deadline
from probes.site.wire import Account, Gap, GapReason
from tests.db.archive.test_ledger import cycle, plan
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh, throughput
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
FOR_EVER = dict.fromkeys(django_settings.RETENTION_DAYS, 0)
DAY = timedelta(days=1)
NEW_YEAR = datetime(2025, 1, 1, tzinfo=UTC)


@pytest.fixture
def mesh():
    return make_mesh()


@pytest.fixture(autouse=True)
def keep(settings):
    """Set for how many days a kind of record is kept; others are kept forever."""

    def days(**days_by_kind):
        settings.RETENTION_DAYS = {**FOR_EVER, **days_by_kind}

    days()
    return days


def delete_old(now=NOW, seconds=60.0):
    return records.delete_old(now, Deadline(seconds))


def ended(slot, outcome="measured"):
    Slot.objects.filter(pk=slot.pk).update(outcome=outcome)
    return slot


def incident(cause, closed_at, **fields):
    opened_at = NOW - 900 * DAY
    return Incident.objects.create(
        rule="loss", cause=cause, opened_at=opened_at, closed_at=closed_at, summary=cause, **fields
    )


# --- received batches


def test_old_batches_are_deleted_except_each_sites_newest(mesh, keep):
    for number, ago in enumerate((40, 20, 5), 1):
        store(mesh.slac.pk, batch(number=number), NOW - ago * DAY)
    store(mesh.cern.pk, batch(number=1), NOW - 90 * DAY)
    keep(deliveries=10)

    delete_old()

    remaining = ReceivedBatch.objects.order_by("site_id", "number").values_list("site_id", "number")
    assert set(remaining) == {(mesh.slac.pk, 3), (mesh.cern.pk, 1)}


def test_refused_results_are_deleted_and_completeness_stays(mesh, keep):
    store(mesh.slac.pk, batch(delivered(99999, burst(1.0), 1), number=1), NOW - 20 * DAY)
    store(mesh.slac.pk, batch(delivered(99999, burst(1.0), 2), number=2), NOW)
    keep(refused=10, deliveries=10, bursts=10)

    delete_old()

    assert [refused.sequence for refused in RefusedResult.objects.all()] == [2]
    assert DeliveredDay.objects.count() == 2


# --- slots


def test_slots_are_deleted_by_whole_years_with_their_rows(mesh, keep):
    old = ended(mesh.slot(mesh.slac_cern, NEW_YEAR - DAY))
    host = Host.objects.get(name="slac")
    SlotHost.objects.create(slot=old, host=host, starts_at=old.starts_at, ends_at=old.ends_at)
    SlotRequest.objects.create(slot=old, asked_at=NOW, asked_by="ada", parameters={})
    young = ended(mesh.slot(mesh.slac_cern, NEW_YEAR))
    keep(slots=365)

    assert delete_old()["slot"] == 1

    assert [slot.pk for slot in Slot.objects.all()] == [young.pk]
    assert not SlotHost.objects.exists()
    assert not SlotRequest.objects.exists()


def test_awaited_slots_and_slots_of_running_cells_are_kept(mesh, keep):
    awaited = mesh.slot(mesh.slac_cern, NEW_YEAR - 2 * DAY)
    of_cell = ended(mesh.slot(mesh.slac_cern, NEW_YEAR - DAY))
    sweep = ThroughputSweep.objects.create(path_id=mesh.slac_cern.pk, name="a", asked_at=NEW_YEAR - DAY, asked_by="ada")
    cell = SweepCell.objects.create(sweep=sweep, place=0, parameters={}, slot_id=of_cell.pk)
    keep(slots=1, throughput=1)

    delete_old()
    assert {slot.pk for slot in Slot.objects.all()} == {awaited.pk, of_cell.pk}
    assert ThroughputSweep.objects.exists()

    SweepCell.objects.filter(pk=cell.pk).update(outcome="measured")
    delete_old()
    assert [slot.pk for slot in Slot.objects.all()] == [awaited.pk]
    assert not SweepCell.objects.exists()


def test_summaries_keep_the_number_of_deleted_slots(mesh, keep):
    at = datetime(2024, 7, 1, 12, tzinfo=UTC)
    for minutes in (0, 10, 20):
        ended(mesh.slot(mesh.slac_cern, at + timedelta(minutes=minutes)))
    later = datetime(2025, 7, 1, 12, tzinfo=UTC)
    ended(mesh.slot(mesh.slac_cern, later))
    tests = [delivered(mesh.slac_cern, throughput(1e6, at=start), n) for n, start in enumerate((at, later), 1)]
    store(mesh.slac.pk, batch(*tests), NOW)
    everything = (datetime(2024, 1, 1, tzinfo=UTC), NOW, NOW)
    list(recompute(*everything))
    before = planned_of_summaries()
    assert before == {"hours": [3, 1], "years": [3, 1]}
    keep(slots=365)

    assert delete_old()["slot"] == 3
    list(recompute(*everything))

    assert planned_of_summaries() == before


def planned_of_summaries():
    return {
        "hours": list(ThroughputHour.objects.order_by("hour").values_list("slots_planned", flat=True)),
        "years": list(ThroughputYear.objects.order_by("year").values_list("slots_planned", flat=True)),
    }


# --- the ledger


def a_ledger(mesh):
    """Of two days and an hour: an hour measured, the rest of the time offline."""
    plan(mesh.slac_cern, since=HOUR - 2 * DAY)
    AgentAccount.objects.create(site=mesh.slac, since=HOUR - 2 * DAY, until=HOUR - 2 * DAY)
    results = [cycle(mesh.slac_cern, minute, sequence=n) for n, minute in enumerate(range(-2880, -2820), 1)]
    gap = Gap(
        test=None, every_s=None, reason=GapReason.AGENT_OFFLINE, since=HOUR - 2 * DAY + timedelta(hours=1), until=HOUR
    )
    store(mesh.slac.pk, batch(*results, account=Account(until=HOUR, gaps=(gap,))), NOW)


def lines(mesh, since=HOUR - 2 * DAY, until=HOUR):
    return {(line.outcome, line.reason): line.count for line in ledger_of_path(mesh.slac_cern.pk, since, until)}


def test_deleted_ledger_days_are_not_called_missed(mesh, keep):
    a_ledger(mesh)
    assert lines(mesh) == {("measured", None): 60, ("missed", "agent_offline"): 2820}
    days = completeness.by_site_and_day((HOUR - 3 * DAY).date(), (HOUR + DAY).date())
    keep(ledger=1)

    delete_old()
    assert not CycleDay.objects.exists()
    assert AgentGap.objects.count() == 1, "it ends within the retention"

    # From the beginning of yesterday on, and nothing before.
    assert lines(mesh) == {("missed", "agent_offline"): 2160}
    assert lines(mesh, until=HOUR - DAY - timedelta(hours=13)) == {}
    assert completeness.by_site_and_day((HOUR - 3 * DAY).date(), (HOUR + DAY).date()) == days


def test_a_longer_retention_does_not_show_deleted_days_as_missed(mesh, keep):
    a_ledger(mesh)
    keep(ledger=1)
    delete_old()
    keep(ledger=1000)
    delete_old()

    assert lines(mesh) == {("missed", "agent_offline"): 2160}


def test_deleted_slots_are_in_no_line(mesh, keep):
    AgentAccount.objects.create(site=mesh.slac, since=NEW_YEAR - DAY, until=NOW)
    for starts_at in (NEW_YEAR - DAY, NEW_YEAR + DAY):
        ended(mesh.slot(mesh.slac_cern, starts_at), "missed")
    keep(slots=365)

    delete_old()

    assert lines(mesh, NEW_YEAR - 2 * DAY, NEW_YEAR) == {}
    assert sum(lines(mesh, NEW_YEAR - 2 * DAY, NOW).values()) == 1


# --- incidents, silences, audit records


def test_open_incidents_stay_and_old_incidents_are_deleted(mesh, keep):
    still_open = incident("open", None)
    young = incident("young", NOW - 10 * DAY)
    old = incident("old", NOW - 500 * DAY)
    for each in (still_open, young, old):
        IncidentPath.objects.create(
            incident=each, path=mesh.slac_cern, added_at=NOW, rule="loss", sentence="", since=NOW, figures={},
            is_over=each.closed_at is not None,
        )  # fmt: skip
        IncidentTurn.objects.create(incident=each, at=NOW, turn="found")
        Notification.objects.create(
            incident=each, change=IncidentChange.OPENED, channel="a", due_at=NOW, state=DeliveryState.SENT
        )
    deed = AuditRecord.objects.create(at=NOW - 600 * DAY, who="ada", what="acknowledged incident", incident=old)
    keep(incidents=365)

    assert delete_old()["incident"] == 1

    remaining = {still_open.pk, young.pk}
    assert {each.pk for each in Incident.objects.all()} == remaining
    for rows in (IncidentPath, IncidentTurn, Notification):
        assert set(rows.objects.values_list("incident_id", flat=True)) == remaining
    deed.refresh_from_db()
    assert deed.incident_id is None


def test_merged_incidents_are_kept_together(keep):
    open_whole, whole = incident("open whole", None), incident("whole", NOW - 500 * DAY)
    incident("part of open", NOW - 500 * DAY, merged_into=open_whole)
    incident("young part", NOW - 10 * DAY, merged_into=whole)
    old_whole = incident("old whole", NOW - 500 * DAY)
    incident("old part", NOW - 500 * DAY, merged_into=old_whole)
    keep(incidents=365)

    delete_old()

    assert set(Incident.objects.values_list("cause", flat=True)) == {
        "open whole",
        "part of open",
        "whole",
        "young part",
    }


def test_an_incident_with_a_pending_notification_stays(keep):
    old = incident("old", NOW - 500 * DAY)
    notification = Notification.objects.create(incident=old, change=IncidentChange.CLOSED, channel="a", due_at=NOW)
    keep(incidents=365)

    assert delete_old()["incident"] == 0
    Notification.objects.filter(pk=notification.pk).update(state=DeliveryState.DEAD)
    assert delete_old()["incident"] == 1


def quiet(**fields):
    made_at = NOW - 900 * DAY
    fields = {"starts_at": made_at, "ends_at": made_at + timedelta(hours=1), "made_at": made_at, **fields}
    return QuietPeriod.objects.create(kind=QuietPeriod.Kind.SILENCE, made_by="ada", **fields)


def test_silences_are_deleted_after_their_last_end(keep):
    over, ended_early = quiet(), quiet(ends_at=NOW + DAY, ended_at=NOW - 800 * DAY)
    ended_series = quiet(every_s=86_400, until=NOW - 400 * DAY)
    stay = [quiet(every_s=86_400), quiet(every_s=86_400, until=NOW), quiet(ends_at=NOW - DAY)]
    deed = AuditRecord.objects.create(at=NOW - 900 * DAY, who="ada", what="silenced", quiet=over)
    keep(incidents=365)

    assert delete_old()["quiet"] == len([over, ended_early, ended_series])

    assert {each.pk for each in QuietPeriod.objects.all()} == {each.pk for each in stay}
    deed.refresh_from_db()
    assert deed.quiet_id is None


def test_audit_records_stay_with_their_incident(keep):
    about = incident("open", None)
    for fields in ({"incident": about}, {}):
        AuditRecord.objects.create(at=NOW - 900 * DAY, who="ada", what="did", **fields)
    AuditRecord.objects.create(at=NOW - 10 * DAY, who="ada", what="did lately")
    keep(deeds=365)

    delete_old()

    assert set(AuditRecord.objects.values_list("what", "incident_id")) == {("did", about.pk), ("did lately", None)}


# --- tokens, sessions, reports


def test_revoked_tokens_and_used_codes_are_deleted(mesh, keep):
    ada = User.objects.create_user("ada")
    for revoked_at in (None, NOW - 10 * DAY, NOW - 500 * DAY):
        issue_token(mesh.slac.pk, NOW - 900 * DAY)
        AgentToken.objects.filter(pk=AgentToken.objects.latest("pk").pk).update(revoked_at=revoked_at)
        issue_user_token(ada.pk, "export", NOW - 900 * DAY)
        UserToken.objects.filter(pk=UserToken.objects.latest("pk").pk).update(revoked_at=revoked_at)
    for number, (used_at, expires_at) in enumerate(
        [(None, NOW + DAY), (NOW - 500 * DAY, NOW + DAY), (None, NOW - 500 * DAY), (None, NOW - 10 * DAY)]
    ):
        EnrolmentCode.objects.create(
            site=mesh.slac, digest=str(number), created_at=NOW, expires_at=expires_at, used_at=used_at,
            replaces_tokens=False,
        )  # fmt: skip
    for revoked_at, expires_at in (None, NOW + DAY), (NOW - 500 * DAY, NOW + DAY), (None, NOW - 500 * DAY):
        SharedLink.objects.create(
            owner=ada, digest=f"{revoked_at} {expires_at}", address="/", created_at=NOW - 900 * DAY,
            revoked_at=revoked_at, expires_at=expires_at,
        )  # fmt: skip
    keep(access=365)

    delete_old()

    assert list(SharedLink.objects.values_list("revoked_at", "expires_at")) == [(None, NOW + DAY)]
    assert set(AgentToken.objects.values_list("revoked_at", flat=True)) == {None, NOW - 10 * DAY}
    assert set(UserToken.objects.values_list("revoked_at", flat=True)) == {None, NOW - 10 * DAY}
    assert set(EnrolmentCode.objects.values_list("digest", flat=True)) == {"0", "3"}


def test_ended_sessions_are_deleted():
    Session.objects.create(session_key="over", session_data="", expire_date=NOW - timedelta(minutes=1))
    Session.objects.create(session_key="lasts", session_data="", expire_date=NOW + timedelta(minutes=1))

    delete_old()

    assert [session.pk for session in Session.objects.all()] == ["lasts"]


def subscriber(name, ended_at):
    return Subscriber.objects.create(
        recipient=f"{name}@example.org", scope="mesh", format="html", numbers="en", zone="UTC", weekday=0, hour=7,
        token=name, subscribed_at=NOW - 900 * DAY, ended_at=ended_at,
    )  # fmt: skip


def test_sent_reports_and_former_subscribers_are_deleted(keep):
    lasts, former = subscriber("ada", None), subscriber("eva", NOW - 500 * DAY)
    for due_at in (NOW - 500 * DAY, NOW - 40 * DAY):
        ReportDelivery.objects.create(subscriber=lasts, period=str(due_at), due_at=due_at, sent_at=due_at)
    ReportDelivery.objects.create(subscriber=former, period="a", due_at=NOW - 600 * DAY)
    keep(reports=1)

    delete_old()

    assert [subscriber.recipient for subscriber in Subscriber.objects.all()] == ["ada@example.org"]
    # Sixty days at least: whether a week's report was sent is checked for five weeks.
    assert [delivery.due_at for delivery in ReportDelivery.objects.all()] == [NOW - 40 * DAY]


# --- batches, limits and locks


def samples(count):
    for n in range(count):
        CentreSample.objects.create(
            at=NOW - 50 * DAY + timedelta(minutes=n), since=NOW, accepted=0, refused=0, queued=0, hours_waiting=0,
            waited_s=0.0, database_bytes=0,
        )  # fmt: skip


def test_nothing_is_deleted_where_everything_is_kept_forever(mesh):
    samples(1)
    ended(mesh.slot(mesh.slac_cern, NEW_YEAR - 5000 * DAY))
    incident("old", NOW - 500 * DAY)

    assert set(delete_old().values()) == {0}


def test_deletion_runs_in_batches_until_done_or_out_of_time(keep, monkeypatch):
    monkeypatch.setattr(records, "ROWS_AT_ONCE", 2)
    samples(5)
    keep(deliveries=30)

    assert delete_old(seconds=0.0)["centre_sample"] == 0
    assert delete_old()["centre_sample"] == 5


def test_the_maximum_number_of_days_is_forever(keep):
    samples(1)
    incident("old", NOW - 500 * DAY)
    keep(**dict.fromkeys(FOR_EVER, 1_000_000))

    assert set(delete_old().values()) == {0}


@pytest.mark.django_db(transaction=True)
def test_a_locked_row_is_skipped_without_waiting(keep):
    samples(3)
    keep(deliveries=30)
    other = connection.copy()
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT FROM centre_sample ORDER BY at LIMIT 1 FOR UPDATE")
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '1s'")

        assert delete_old()["centre_sample"] == 2
    finally:
        other.rollback()  # the lock is released when this returns, which a close does not guarantee
        other.close()

    assert delete_old()["centre_sample"] == 1
