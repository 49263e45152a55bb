"""Stored versions of plans: after any change of a plan, and at any time, no agent is told that it has the newest."""

from contextlib import suppress
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.agents.models import AgentHealth, issue_token
from monitor.mesh import stored_plans
from monitor.mesh.apply import apply
from monitor.mesh.kinds.ping import PingEntry
from monitor.mesh.kinds.throughput import ThroughputEntry
from monitor.mesh.models import (
    Host,
    Measurement,
    Mesh,
    Path,
    Site,
    SitePlan,
    SitePlanChange,
    Slot,
    SlotHost,
    SlotRequest,
    Test,
)
from monitor.mesh.plan import plan_for
from monitor.mesh.schedule import destination_tests, endings, requests, slots
from probes.contract import Outcome
from probes.site.wire import ABILITIES_HEADER, OnDemandPingReport
from probes.trace.spec import TraceReason
from tests.db.mesh.test_slots import document

PLAN = "/api/agent/plan"
ALL = {ABILITIES_HEADER: "on-demand-pings, on-demand-traces"}
SITES = ("s1", "s2", "s3")


class Centre:
    """A mesh of three sites, a clock, and its agents with the plans that they have."""

    def __init__(self, client, monkeypatch):
        self.now = timezone.now()
        self.client = client
        monkeypatch.setattr(timezone, "now", lambda: self.now)
        pings = PingEntry("pinger", every_s=60)
        apply(document(3, pings, ThroughputEntry("tcp", every_s=3600)), self.now)
        slots.plan_slots(self.now)
        self.tokens = {name: issue_token(Site.objects.get(name=name).pk, self.now) for name in SITES}

    def ask(self, name, etag="none", **headers):
        headers = {"Authorization": f"Bearer {self.tokens[name]}", "If-None-Match": etag, **ALL, **headers}
        return self.client.get(PLAN, headers=headers)

    def truth(self, name):
        """The plan's version, built without anything that is kept."""
        destination_tests._kept = None
        site = Site.objects.get(pk=Site.objects.get(agent_tokens__digest=digest(self.tokens[name])).pk)
        from monitor.agents.health import Iperf3OfSites

        return f'"{plan_for(site, self.now, Iperf3OfSites()).version}"'

    def path(self):
        return Path.objects.get(source__name="s1", destination__name="s2")

    def slot(self, minutes, outcome=None):
        """A slot between s2 and s3, which take part in it, and which s1 measures."""
        starts_at = self.now + timedelta(minutes=minutes)
        measurement = Measurement.objects.get(path__source__name="s2", path__destination__name="s3", test__name="tcp")
        slot = Slot.objects.create(
            measurement=measurement, starts_at=starts_at, ends_at=starts_at + timedelta(seconds=20), outcome=outcome
        )
        SlotHost.objects.filter(
            host__in=(measurement.path.source_id, measurement.path.destination_id),
            starts_at__lt=slot.ends_at,
            ends_at__gt=slot.starts_at,
        ).delete()
        slots.take([(slot, (measurement.path.source_id, measurement.path.destination_id), ())])
        return slot

    def pass_time(self, **time):
        self.now += timedelta(**time)


def digest(token):
    from monitor.accounts.models import token_digest

    return token_digest(token)


def next_slot(centre):
    return Slot.objects.filter(outcome=None, ends_at__gt=centre.now).order_by("starts_at").first()


def of_next_slot(change):
    """A change of the next slot, where there is any."""

    def make(centre):
        slot = next_slot(centre)
        if slot is not None:
            change(slot)

    return make


def request_of(slot):
    SlotRequest.objects.get_or_create(
        slot=slot, defaults={"asked_at": slot.starts_at, "asked_by": "a", "parameters": {"duration_s": 7}}
    )


def ask_pings(centre):
    with suppress(requests.PingsRunning):
        requests.ask_pings(centre.path(), by="a", now=centre.now)


def report_pings(centre):
    for site in Site.objects.all():
        for run in requests.hand_out_pings(site.pk, centre.now):
            report = OnDemandPingReport(run_id=run.run_id, started_at=centre.now, outcome=Outcome.MEASURED)
            requests.record(site.pk, report, centre.now)


def tell_iperf3(version):
    def tell(centre):
        site = Site.objects.get(agent_tokens__digest=digest(centre.tokens["s2"]))
        fields = {"accepted_at": centre.now, "agent_version": "1", "queued": 0, "dropped": 0}
        AgentHealth.objects.update_or_create(site=site, defaults={**fields, "health": {"iperf3": version}})

    return tell


CHANGES = {
    "nothing": lambda centre: None,
    "a host's address": lambda centre: Host.objects.filter(name="s2").update(address="192.0.2.99"),
    "a host's interface": lambda centre: Host.objects.filter(name="s1").update(interface="vrf-a"),
    "a host's peers": lambda centre: Host.objects.filter(name="s3").update(
        peers=[{"sites": ["s1"], "address": "203.0.113.3"}]
    ),
    "a site's name": lambda centre: Site.objects.filter(name="s1").update(name="s1-renamed"),
    "a site's agent": lambda centre: Site.objects.filter(name="s2").update(has_agent=False),
    "a path retired": lambda centre: Path.objects.filter(source__name="s1").update(retired_at=centre.now),
    "measurements retired": lambda centre: Measurement.objects.filter(path__source__name="s1").update(
        retired_at=centre.now
    ),
    "measurements back": lambda centre: Measurement.objects.update(retired_at=None),
    "a test's period": lambda centre: Test.objects.filter(name="pinger").update(every_s=120),
    "a test's parameters": lambda centre: Test.objects.filter(name="pinger").update(
        parameters={**Test.objects.get(name="pinger").parameters, "count": 3}
    ),
    "the mesh's name": lambda centre: Mesh.objects.update(name="other"),
    "a slot soon": lambda centre: centre.slot(5),
    "a slot in an hour": lambda centre: centre.slot(61),
    "a slot in 25 minutes": lambda centre: centre.slot(25),
    "a slot ends": of_next_slot(lambda slot: endings.close_slot(slot.pk, Outcome.MEASURED)),
    "a slot deleted": of_next_slot(lambda slot: slot.delete()),
    "a slot later": of_next_slot(
        lambda slot: Slot.objects.filter(pk=slot.pk).update(ends_at=slot.ends_at + timedelta(seconds=30))
    ),
    "a slot requested": of_next_slot(request_of),
    "a reservation gone": of_next_slot(lambda slot: SlotHost.objects.filter(slot=slot).delete()),
    "slots planned": lambda centre: slots.plan_slots(centre.now),
    "slots expire": lambda centre: endings.expire_slots(centre.now),
    "iperf3 told": tell_iperf3("3.12"),
    "iperf3 upgraded": tell_iperf3("3.16"),
    "pings": ask_pings,
    "pings reported": report_pings,
    "traces": lambda centre: requests.ask_traces([centre.path()], TraceReason.ON_DEMAND, by="a", now=centre.now),
    "5 s pass": lambda centre: centre.pass_time(seconds=5),
    "40 s pass": lambda centre: centre.pass_time(seconds=40),
    "3 minutes pass": lambda centre: centre.pass_time(minutes=3),
    "11 minutes pass": lambda centre: centre.pass_time(minutes=11),
    "40 minutes pass": lambda centre: centre.pass_time(minutes=40),
}


@pytest.fixture
def centre(db, client, monkeypatch):
    return Centre(client, monkeypatch)


def assert_truth_is_told(centre, etags):
    """Each agent asks with the version that it has, and again: 304 only while that is the truth, which no question
    changes."""
    for name in SITES:
        truth = centre.truth(name)
        for _ in range(2):
            answer = centre.ask(name, etags[name])
            assert (answer.status_code == 304) == (etags[name] == truth), name
            assert answer["ETag"] == truth
            etags[name] = answer["ETag"]


def assert_after_changes(centre, names):
    etags = dict.fromkeys(SITES, "none")
    assert_truth_is_told(centre, etags)
    for name in names:
        CHANGES[name](centre)
        assert_truth_is_told(centre, etags)


@pytest.mark.parametrize("change", CHANGES)
def test_no_change_of_a_plan_is_missed(centre, change):
    assert_after_changes(centre, [change])


def test_no_sequence_of_changes_is_missed(centre):
    began = centre.now

    @settings(max_examples=8, deadline=None)
    @given(st.lists(st.sampled_from(sorted(CHANGES)), min_size=2, max_size=5))
    def check(names):
        with transaction.atomic():
            centre.now = began
            assert_after_changes(centre, names)
            transaction.set_rollback(True)

    check()


def test_an_unchanged_plan_is_not_built(centre, django_assert_max_num_queries):
    etag = centre.ask("s1")["ETag"]

    with django_assert_max_num_queries(1):
        assert centre.ask("s1", etag).status_code == 304


def test_a_later_slot_of_others_leaves_a_plan_alone(centre):
    """It enters the plan with a later window, and the plan is not valid beyond its own."""
    etag = centre.ask("s1")["ETag"]
    valid_until = SitePlan.objects.get(site__name="s1").valid_until

    assert centre.now < valid_until <= centre.now + timedelta(seconds=destination_tests.WINDOW_S)
    centre.slot(120)
    assert not SitePlanChange.objects.filter(site_id=Site.objects.get(name="s1").pk).exists()
    assert centre.ask("s1", etag).status_code == 304


def test_an_agent_without_abilities_gets_its_own_plan(centre):
    etag = centre.ask("s1")["ETag"]
    ask_pings(centre)

    old = centre.ask("s1", etag, **{ABILITIES_HEADER: ""})

    assert (old.status_code, old["ETag"]) == (304, etag)


def test_another_key_or_code_builds_all_plans_again(centre, monkeypatch):
    etag = centre.ask("s1")["ETag"]
    monkeypatch.setattr(stored_plans, "maker", lambda: "of another release")
    SitePlan.objects.update(version="stale")

    answer = centre.ask("s1", '"stale"')

    assert (answer.status_code, answer["ETag"]) == (200, etag)


@pytest.mark.parametrize("file", ["kinds/ping.py", "sql/plan_state.sql"])
def test_other_code_or_sql_is_another_maker(tmp_path, monkeypatch, file):
    monkeypatch.setattr(stored_plans, "CODE", (tmp_path,))
    (tmp_path / file).parent.mkdir()

    def maker_with(text):
        (tmp_path / file).write_text(text)
        return stored_plans.maker.__wrapped__()

    assert maker_with("a") == maker_with("a") != maker_with("b")


@pytest.mark.django_db(transaction=True)
def test_a_change_committed_while_a_plan_is_built_is_not_missed(client, monkeypatch, other_connection):
    centre = Centre(client, monkeypatch)
    build = stored_plans.make_plan

    def change_meanwhile(*arguments):
        plan = build(*arguments)
        other_connection("UPDATE host SET address = '192.0.2.98' WHERE name = 's2'")
        other_connection("UPDATE slot SET outcome = 'measured'")
        return plan

    with monkeypatch.context() as patch:
        patch.setattr(stored_plans, "make_plan", change_meanwhile)
        etag = centre.ask("s1")["ETag"]

    marks = SitePlanChange.objects.count()
    assert marks > 0
    other_connection("UPDATE slot SET outcome = 'busy'")
    assert SitePlanChange.objects.count() == marks, "sites that are marked get no other mark"
    assert_truth_is_told(centre, dict.fromkeys(SITES, etag))


@pytest.fixture
def other_connection(transactional_db):
    """Runs and commits statements over a connection of its own."""
    import psycopg

    parameters = connection.get_connection_params()
    names = ("dbname", "user", "password", "host", "port", "passfile")
    with psycopg.connect(**{name: parameters[name] for name in names if name in parameters}, autocommit=True) as other:
        yield other.execute
