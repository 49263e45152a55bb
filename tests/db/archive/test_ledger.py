"""The ledger: each planned measurement is in a single line with its outcome, by hand and by a second
implementation."""

import dataclasses
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.archive.models import AgentAccount, AgentGap, Burst, CycleDay, ReceivedBatch
from monitor.archive.queries.operation.ledger import LedgerLine, count_planned, ledger_of_path, ledger_of_paths
from monitor.mesh.kinds import MESH_KINDS
from monitor.mesh.models import Host, Measurement, MeasurementPeriod, SlotRequest, Test
from monitor.mesh.schedule.endings import NOT_REPORTED, expire_slots
from probes.contract import Outcome
from probes.site.spool.ledger import Cycle
from probes.site.spool.spool import Spool
from probes.site.wire import PLANNED_LATE, Account, Delivered, Gap, GapReason
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]
MINUTE = timedelta(minutes=1)
FIRST = int(HOUR.timestamp()) // 60
"""Number of the first cycle of the hour."""


@pytest.fixture
def mesh():
    return make_mesh()


def plan(path, *, name="pinger", every_s=60, since=HOUR - timedelta(days=1), until=None, kind="ping"):
    test, _ = Test.objects.get_or_create(name=name, defaults={"kind": kind, "every_s": every_s})
    measurement, _ = Measurement.objects.get_or_create(path=path, test=test, defaults={"started_at": since})
    return MeasurementPeriod.objects.create(
        measurement=measurement, every_s=every_s, packet_bytes=[100], started_at=since, ended_at=until
    )


def cycle(path, minute, *, outcome=None, sequence=None, every_s=60):
    """The result of a cycle that begins this many minutes past the hour."""
    at = HOUR + minute * MINUTE + timedelta(seconds=1)
    result = burst(at=at, outcome=outcome) if outcome else burst(1.0, at=at)
    number = int((HOUR + minute * MINUTE).timestamp()) // every_s
    return delivered(path, result, minute + 1 if sequence is None else sequence, every_s=every_s, cycle=number)


def hour_of(path, since=HOUR, until=HOUR + timedelta(hours=1)):
    return {(line.test, line.outcome, line.reason): line.count for line in ledger_of_path(path.pk, since, until)}


def account(*gaps, until=HOUR + timedelta(hours=1)):
    return Account(until=until, gaps=gaps)


def gap(first, last, reason, test="pinger"):
    every_s = None if test is None else 60
    return Gap(since=HOUR + first * MINUTE, until=HOUR + last * MINUTE, reason=reason, test=test, every_s=every_s)


LATER = NOW + timedelta(hours=1)


def test_an_hour_of_a_path_has_the_outcome_of_each_cycle(mesh):
    plan(mesh.slac_cern)
    results = [cycle(mesh.slac_cern, minute) for minute in range(60) if minute not in (10, 11, 30)]
    results.append(cycle(mesh.slac_cern, 30, outcome=Outcome.BUSY, sequence=100))
    offline = gap(10, 12, GapReason.AGENT_OFFLINE, test=None)

    store(mesh.slac.pk, batch(*results, account=account(offline)), LATER)

    assert ledger_of_path(mesh.slac_cern.pk, HOUR, HOUR + timedelta(hours=1)) == [
        LedgerLine(mesh.slac_cern.pk, "pinger", "measured", None, 57),
        LedgerLine(mesh.slac_cern.pk, "pinger", "busy", None, 1),
        LedgerLine(mesh.slac_cern.pk, "pinger", "missed", "agent_offline", 2),
    ]


def test_unaccounted_cycles_are_awaited_until_the_agent_reports(mesh):
    plan(mesh.slac_cern)
    store(mesh.slac.pk, batch(cycle(mesh.slac_cern, 0), account=account(until=HOUR)), LATER)
    assert hour_of(mesh.slac_cern) == {("pinger", "measured", None): 1, ("pinger", "awaited", None): 59}

    late = [cycle(mesh.slac_cern, minute) for minute in range(1, 50)]
    store(mesh.slac.pk, batch(*late, number=2, account=account(gap(50, 60, GapReason.LATE))), LATER)

    assert hour_of(mesh.slac_cern) == {("pinger", "measured", None): 50, ("pinger", "missed", "late"): 10}


def test_cycles_skipped_by_the_agent_were_not_in_its_plan(mesh):
    plan(mesh.slac_cern)
    plan(mesh.slac_anl)
    results = [cycle(mesh.slac_cern, minute) for minute in range(60)]
    store(mesh.slac.pk, batch(account=account(until=HOUR), number=1), LATER)

    store(mesh.slac.pk, batch(*results, account=account(), number=2), LATER)

    assert hour_of(mesh.slac_cern) == {("pinger", "measured", None): 60}
    assert hour_of(mesh.slac_anl) == {("pinger", "missed", "not_in_plan"): 60}


def test_before_an_agents_first_account_outcomes_are_unknown(mesh):
    plan(mesh.slac_cern)

    store(mesh.slac.pk, batch(account=account(until=HOUR + 20 * MINUTE)), LATER)

    assert hour_of(mesh.slac_cern) == {("pinger", "unknown", None): 20, ("pinger", "awaited", None): 40}


def test_a_cycle_with_several_outcomes_counts_once_as_the_best(mesh):
    plan(mesh.slac_cern, since=HOUR, until=HOUR + MINUTE)
    results = [
        cycle(mesh.slac_cern, 0, outcome=Outcome.NO_ROUTE, sequence=1),
        delivered(mesh.slac_cern, burst(1.0, packet_bytes=1000), 2, every_s=60, cycle=FIRST),
    ]

    store(mesh.slac.pk, batch(*results, account=account(gap(0, 1, GapReason.DROPPED))), LATER)

    assert hour_of(mesh.slac_cern) == {("pinger", "measured", None): 1}


def test_a_schedule_counts_while_it_is_in_force(mesh):
    plan(mesh.slac_cern, until=HOUR + 30 * MINUTE)
    plan(mesh.slac_cern, every_s=300, since=HOUR + 30 * MINUTE)
    results = [cycle(mesh.slac_cern, minute) for minute in range(40)]
    results += [cycle(mesh.slac_cern, minute, sequence=1000 + minute, every_s=300) for minute in range(40, 60, 5)]

    store(mesh.slac.pk, batch(*results, account=account(until=None)), LATER)

    # 30 of the first schedule; of the 6 of the second those at 40, 45, 50 and 55: the agent received it late.
    assert hour_of(mesh.slac_cern) == {("pinger", "measured", None): 34, ("pinger", "awaited", None): 2}


def test_slots_have_lines_with_the_reason_of_missed_slots(mesh):
    for minute, outcome, detail in (
        (0, "measured", ""),
        (10, "missed", "agent started 40 s late"),
        (20, "missed", NOT_REPORTED),
        (30, "missed", NOT_REPORTED),
        (40, None, ""),
        (50, "missed", f"{PLANNED_LATE} 6.0 s after it began"),
        (60, "measured", ""),
    ):
        slot = mesh.slot(mesh.slac_cern, HOUR + minute * MINUTE)
        slot.outcome, slot.detail = outcome, detail
        slot.save()

    store(mesh.slac.pk, batch(account=account(gap(25, 35, GapReason.AGENT_OFFLINE, test=None))), LATER)

    assert hour_of(mesh.slac_cern) == {
        ("tcp", "measured", None): 1,
        ("tcp", "missed", "late"): 1,
        ("tcp", "missed", "not_reported"): 1,
        ("tcp", "missed", "agent_offline"): 1,
        ("tcp", "missed", "not_in_plan"): 1,
        ("tcp", "awaited", None): 1,
    }


@pytest.mark.parametrize("is_asked_for", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("offline", ["slac", "cern"])
def test_a_slot_was_missed_by_the_agent_that_connects(mesh, offline, reverse, is_asked_for):
    """With `reverse` that is the destination's; requested parameters take precedence over those of the plan."""
    slot = mesh.slot(mesh.slac_cern, HOUR + 30 * MINUTE)
    Test.objects.filter(name="tcp").update(parameters={"reverse": reverse is not is_asked_for})
    if is_asked_for:
        SlotRequest.objects.create(slot=slot, asked_at=HOUR, asked_by="ann", parameters={"reverse": reverse})
    expire_slots(HOUR + timedelta(hours=1))

    store(
        getattr(mesh, offline).pk,
        batch(account=account(gap(25, 35, GapReason.AGENT_OFFLINE, test=None))),
        LATER,
    )

    by_whom = "agent_offline" if offline == ("cern" if reverse else "slac") else "not_reported"
    assert hour_of(mesh.slac_cern) == {("tcp", "missed", by_whom): 1}


@pytest.mark.parametrize("behind_nat", ["slac", "cern"])
@pytest.mark.parametrize("reverse", [False, True])
def test_an_end_behind_nat_is_the_end_that_connects(mesh, behind_nat, reverse):
    mesh.slot(mesh.slac_cern, HOUR + 30 * MINUTE)
    Test.objects.filter(name="tcp").update(parameters={"reverse": reverse})
    Host.objects.filter(name=behind_nat).update(behind_nat=True)
    expire_slots(HOUR + timedelta(hours=1))

    store(
        getattr(mesh, behind_nat).pk,
        batch(account=account(gap(25, 35, GapReason.AGENT_OFFLINE, test=None))),
        LATER,
    )

    assert hour_of(mesh.slac_cern) == {("tcp", "missed", "agent_offline"): 1}


def test_a_kind_names_the_parameter_that_reverses_connections(mesh, monkeypatch):
    other_kind = dataclasses.replace(MESH_KINDS["throughput"], reversed_by="backwards")
    monkeypatch.setitem(MESH_KINDS, "other-tool", other_kind)
    mesh.slot(mesh.slac_cern, HOUR + 30 * MINUTE)
    Test.objects.filter(name="tcp").update(kind="other-tool", parameters={"backwards": True, "reverse": False})
    expire_slots(HOUR + timedelta(hours=1))

    store(mesh.cern.pk, batch(account=account(gap(25, 35, GapReason.AGENT_OFFLINE, test=None))), LATER)

    assert hour_of(mesh.slac_cern) == {("tcp", "missed", "agent_offline"): 1}


def test_lines_are_those_of_the_requested_paths(mesh):
    for path in (mesh.slac_cern, mesh.slac_anl, mesh.cern_slac):
        plan(path, since=HOUR, until=HOUR + 2 * MINUTE)
    late = account(gap(1, 2, GapReason.LATE), until=None)
    store(mesh.slac.pk, batch(cycle(mesh.slac_anl, 0), account=late), LATER)

    lines = ledger_of_paths([mesh.slac_cern.pk, mesh.slac_anl.pk], HOUR, HOUR + timedelta(hours=1))

    assert [(line.path_id, line.outcome, line.reason, line.count) for line in lines] == [
        (mesh.slac_cern.pk, "missed", "late", 1),
        (mesh.slac_cern.pk, "awaited", None, 1),
        (mesh.slac_anl.pk, "measured", None, 1),
        (mesh.slac_anl.pk, "missed", "late", 1),
    ]
    assert count_planned(lines) == 4


def test_a_refused_result_has_no_outcome(mesh):
    plan(mesh.slac_cern, since=HOUR, until=HOUR + MINUTE)
    wrong = burst(1.0, family=6)

    store(mesh.slac.pk, batch(delivered(mesh.slac_cern, wrong, every_s=60, cycle=FIRST)), LATER)
    assert hour_of(mesh.slac_cern) == {("pinger", "awaited", None): 1}

    store(mesh.slac.pk, batch(number=2, account=account(gap(0, 1, GapReason.SET_ASIDE))), LATER)
    assert hour_of(mesh.slac_cern) == {("pinger", "missed", "set_aside"): 1}


def test_an_invalid_or_impossible_account_is_ignored(mesh):
    plan(mesh.slac_cern, since=HOUR, until=HOUR + MINUTE)
    strange = [
        gap(0, 1, GapReason.LATE, test="nul\0"),
        gap(5, 1, GapReason.LATE),
        Gap(since=datetime(1, 1, 1, tzinfo=UTC), until=HOUR, reason=GapReason.LATE),
        Gap(since=LATER + MINUTE, until=datetime(9999, 1, 1, tzinfo=UTC), reason=GapReason.LATE),
    ]
    far = datetime(9999, 1, 1, tzinfo=UTC)

    receipt = store(mesh.slac.pk, batch(cycle(mesh.slac_cern, 0), account=account(*strange, until=far)), LATER)

    assert receipt.accepted == 1
    assert not AgentGap.objects.exists()
    assert AgentAccount.objects.get().until == LATER
    assert hour_of(mesh.slac_cern) == {("pinger", "measured", None): 1}


def test_api_and_page_show_the_same_hour_up_to_now(mesh, client, monkeypatch):
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    plan(mesh.slac_cern, since=HOUR)
    results = [cycle(mesh.slac_cern, minute) for minute in range(20)]
    offline = gap(20, 25, GapReason.AGENT_OFFLINE, test=None)
    store(mesh.slac.pk, batch(*results, account=account(offline, until=None)), NOW)
    period = {"since": HOUR.isoformat(), "until": (HOUR + timedelta(hours=1)).isoformat()}
    headers = {"host": "localhost"}

    body = client.get(f"/api/v1/paths/{mesh.slac_cern.pk}/ledger", period, headers=headers).json()
    page = client.get(f"/paths/{mesh.slac_cern.pk}/?period=hour", headers=headers).content.decode()
    unknown = client.get("/api/v1/paths/9999/ledger", headers=headers)

    assert (body["planned"], body["until"]) == (30, "2026-03-14T12:30:00Z")
    assert [(line["outcome"], line["reason"], line["count"]) for line in body["lines"]] == [
        ("measured", None, 20),
        ("missed", "agent_offline", 5),
        ("awaited", None, 5),
    ]
    row = page[page.index("<td>pinger</td>") :]
    numbers = '<td class="number">30</td><td class="number">20</td>'
    assert row.startswith(f"<td>pinger</td>{numbers}<td>5 not completed: agent offline, 5 pending</td>")
    assert unknown.status_code == 404


@dataclass
class Simulation:
    """An agent with a real spool, a centre with a real archive, and the true outcome of each cycle.

    Time advances by minutes. The centre plans with `every`, the agent with the schedule it fetched last.
    """

    mesh: object
    spool_path: Path
    minute: int = 0
    every: int = 1
    """Minutes between cycles, as the centre plans."""
    fetched: int = 1
    running: bool = False
    spool: Spool | None = None
    last_heartbeat_s: float | None = None
    killed: dict = field(default_factory=dict)
    """By minute, the schedule in use when the agent was killed during a cycle."""
    truth: dict = field(default_factory=dict)
    """By (every, minute): how the cycle ended, for all that the centre planned."""

    @property
    def now(self):
        return HOUR + self.minute * MINUTE

    def start(self):
        """Start shortly before the minute begins, hence not in the minute in which it was killed; later results are
        spooled in the middle of their minute."""
        if self.running or self.minute in self.killed:
            return
        self.spool = Spool(self.spool_path, now_s=lambda: (self.now + timedelta(seconds=30)).timestamp())
        with self.a_little_before():
            self.spool.record_start(self.last_heartbeat_s)
        self.follow()
        self.running = True

    def follow(self):
        """Also shortly before the minute."""
        with self.a_little_before():
            self.spool.set_planned([self.cycle_at(self.now - timedelta(seconds=10))])

    def a_little_before(self):
        return mock.patch.object(self.spool, "_now_s", return_value=(self.now - timedelta(seconds=10)).timestamp())

    def cycle_at(self, at):
        return Cycle.at("pinger", 60 * self.fetched, at)

    def stop(self, mid_cycle):
        """Kill the agent: during a cycle, if it could begin a cycle."""
        if self.running:
            if mid_cycle and self.begin_cycle():
                self.killed[self.minute] = self.fetched
            self.spool.close()
            self.last_heartbeat_s = (self.now - timedelta(seconds=15)).timestamp()
            self.running = False

    def begin_cycle(self):
        return self.minute % self.fetched == 0 and self.spool.claim_cycle(self.cycle_at(self.now))

    def ended(self, how):
        """Record the outcome of the agent's own cycle of this minute, if the centre planned it."""
        if (self.fetched, self.minute) in self.truth:
            self.truth[self.fetched, self.minute] = how

    def step(self, event):
        """Advance agent and centre by a minute."""
        if self.minute % self.every == 0:
            self.truth[self.every, self.minute] = self.missing()
        if self.running and event != "tick lost" and self.begin_cycle():
            busy = event == "busy"
            at = self.now + timedelta(seconds=1)
            result = burst(at=at, outcome=Outcome.BUSY) if busy else burst(1.0, at=at)
            self.spool.put(
                [Delivered(sequence=0, path_id=self.mesh.slac_cern.pk, test="pinger", result=result)],
                cycle=self.cycle_at(self.now),
            )
            self.ended("busy" if busy else "measured")
        self.minute += 1

    def missing(self):
        """The reason why the cycle that the centre plans now has no result, if it gets none."""
        killed = self.killed.get(self.minute)
        if killed == self.every or (killed is None and not self.running):
            return "agent_offline"
        return "late" if self.running and self.every == self.fetched else "not_in_plan"

    def change_plan(self, every):
        """The centre plans again, half a minute after the last minute."""
        if every == self.every:
            return
        at = self.now - timedelta(seconds=30)
        MeasurementPeriod.objects.filter(ended_at=None).update(ended_at=at)
        self.every = every
        plan(self.mesh.slac_cern, every_s=60 * every, since=at)

    def fetch(self):
        if self.running and self.fetched != self.every:
            self.fetched = self.every
            self.follow()

    def deliver(self, size=1000, times=1, acknowledged=True):
        """Send a batch, perhaps twice; its acknowledgement may be lost."""
        if not self.running:
            return False
        next_batch = self.spool.next_batch(max_results=size, max_bytes=10**6, now=self.now, agent_version="0.1.0")
        if next_batch is None:
            return False
        for _ in range(times):
            store(self.mesh.slac.pk, next_batch, HOUR + timedelta(days=1))
        if acknowledged:
            self.spool.acknowledge(next_batch.number)
        return acknowledged


steps = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.sampled_from(("measured", "measured", "measured", "busy", "tick lost"))),
        st.tuples(st.just("stop"), st.booleans()),
        st.tuples(st.just("start"), st.none()),
        st.tuples(st.just("change_plan"), st.sampled_from((1, 2, 3))),
        st.tuples(st.just("fetch"), st.none()),
        st.tuples(st.just("deliver"), st.tuples(st.integers(1, 5), st.integers(1, 2), st.booleans())),
    ),
    max_size=60,
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps)
def test_each_cycle_is_counted_once_across_stops_and_changes(mesh, events):
    for model in (CycleDay, AgentGap, AgentAccount, Burst, ReceivedBatch, MeasurementPeriod):
        model.objects.all().delete()
    with TemporaryDirectory() as folder:
        simulated = Simulation(mesh, Path(folder) / "spool.sqlite3")
        plan(mesh.slac_cern, since=HOUR)
        simulated.start()
        store(mesh.slac.pk, batch(account=account(until=HOUR), number=0), LATER)
        for verb, argument in events:
            if verb == "step":
                simulated.step(argument)
            elif verb == "deliver":
                simulated.deliver(*argument)
            elif argument is None:
                getattr(simulated, verb)()
            else:
                getattr(simulated, verb)(argument)
            lines = ledger_of_path(mesh.slac_cern.pk, HOUR, simulated.now)
            assert count_planned(lines) == len(simulated.truth)

        settle(simulated)

        counts: dict[str, int] = {}
        for line in ledger_of_path(mesh.slac_cern.pk, HOUR, simulated.now):
            counts[line.reason or line.outcome] = counts.get(line.reason or line.outcome, 0) + line.count
        assert sum(counts.values()) == len(simulated.truth)
        expected: dict[str, int] = {}
        for outcome in simulated.truth.values():
            expected[outcome] = expected.get(outcome, 0) + 1
        assert counts == expected


def settle(simulated):
    """The agent runs, has the plan, measures a cycle, and delivers everything."""
    if simulated.minute in simulated.killed:
        simulated.step("measured")
    simulated.start()
    simulated.fetch()
    for _ in range(4):
        simulated.step("measured")
    while simulated.deliver():
        continue
    simulated.spool.close()
