"""When the agent's tasks are due, and that a folder has at most a single agent."""

import subprocess
import sys
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from celery import Celery, current_app
from hypothesis import given
from hypothesis import strategies as st

from probes.kinds import CYCLE_KINDS
from probes.packets.spec import PingSpec, PingTarget
from probes.ping.kind import KIND
from probes.ping.spec import PingTask
from probes.site import command
from probes.site.plan import PlanCache
from probes.site.runner.schedule import CHORES, DISPATCH, Aligned, PlanScheduler, chores, cycle_entries, task_name
from probes.site.runner.slot import Slots
from probes.site.settings import AgentSettings, SettingsError, from_environment
from probes.site.spool.spool import Spool
from probes.site.tasks import make_app
from probes.site.wire import Plan
from probes.throughput.spec import ThroughputSlot
from probes.transfers.spec import ThroughputSpec
from tests.facts import lacks

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ROOT = Path(__file__).parents[3]


def at(seconds):
    return EPOCH + timedelta(seconds=seconds)


def aligned(every_s, phase_s, now_s):
    return Aligned(every_s, phase_s, nowfun=lambda: at(now_s))


@given(
    every_s=st.integers(1, 3600),
    phase_s=st.floats(0, 2),
    last_s=st.floats(1e9, 2e9),
    gone_s=st.floats(0, 10_000),
)
def test_a_task_is_due_exactly_when_a_boundary_was_passed(every_s, phase_s, last_s, gone_s):
    due, wait_s = aligned(every_s, phase_s, last_s + gone_s).is_due(at(last_s))

    boundaries_before = (at(last_s).timestamp() - phase_s) // every_s
    boundaries_now = (at(last_s + gone_s).timestamp() - phase_s) // every_s
    assert due == (boundaries_now > boundaries_before)
    assert 0 < wait_s <= every_s + 1e-3
    next_at = at(last_s + gone_s).timestamp() + wait_s - phase_s
    assert next_at % every_s == pytest.approx(0, abs=1e-3) or next_at % every_s == pytest.approx(every_s, abs=1e-3)


def test_a_boundary_during_the_check_costs_no_interval():
    readings = iter([at(1_000_000_019.9999), at(1_000_000_020.0001)])
    schedule = Aligned(20, 0.0, nowfun=lambda: next(readings))

    assert schedule.is_due(at(1_000_000_001)) == (False, pytest.approx(0.0001, abs=1e-5))


def test_a_clock_set_back_an_hour_costs_an_interval_not_an_hour():
    schedule = aligned(60, 0.5, 1_000_000_000 - 3600)

    assert schedule.is_due(at(1_000_000_000)) == (True, pytest.approx(20.5))


def a_slot():
    window = {"starts_at": at(0), "ends_at": at(30)}
    spec = ThroughputSpec(address="192.0.2.1")
    return ThroughputSlot(slot_id=1, path_id=1, test="tcp", role="client", spec=spec, **window)


def plan(version="v1", site="slac", throughput=(), **every_s):
    tasks = tuple(
        PingTask(test=test, every_s=seconds, spec=PingSpec(targets=(PingTarget(address="192.0.2.1", path_id=1),)))
        for test, seconds in every_s.items()
    )
    return Plan(version=version, site=site, mesh="test", ping=tasks, throughput=throughput)


def test_the_phase_is_small_and_fixed_for_a_site():
    phases = {site: cycle_entries(plan(site=site, pinger=60), KIND)[0][3] for site in ("slac", "cern", "in2p3", "ornl")}

    assert len(set(phases.values())) == 4
    assert all(0 <= phase < 2 for phase in phases.values())
    assert cycle_entries(plan(site="slac", pinger=60), KIND)[0][3] == phases["slac"]
    assert cycle_entries(plan(site="slac", fast=2), KIND)[0][3] < 0.2


def test_the_sites_of_a_mesh_do_not_deliver_together():
    phases = {site: {name: phase for name, _, phase in chores(plan(site=site))} for site in ("slac", "cern")}

    assert phases["slac"]["site.deliver"] != phases["cern"]["site.deliver"]
    assert all(0 <= phase < CHORES[name] for name, phase in phases["slac"].items())


@pytest.fixture
def scheduler(tmp_path):
    app = Celery("test", set_as_current=False)
    app.conf.timezone = "UTC"
    app.agent = SimpleNamespace(
        plans=PlanCache(tmp_path / "plan.json"),
        spool=SimpleNamespace(has_results=True),
        cycle_clock=SimpleNamespace(now=lambda: datetime.now(UTC), ahead_s=lambda: 0.0),
    )
    return PlanScheduler(app, lazy=False)


def test_without_slots_only_dispatching_is_not_scheduled(scheduler):
    assert set(scheduler.schedule) == set(CHORES) - {DISPATCH}

    scheduler.app.agent.plans.store(plan("v1", throughput=(a_slot(),)))

    assert set(scheduler.schedule) == set(CHORES)


def test_an_empty_spool_is_not_delivered(scheduler, monkeypatch):
    sent = []
    monkeypatch.setattr(scheduler, "apply_async", lambda entry, **_: sent.append(entry.name))
    monkeypatch.setattr(PlanScheduler, "producer", None)
    entries = [scheduler.schedule[name] for name in ("site.deliver", "site.pulse")]

    for has_results in (True, False):
        scheduler.app.agent.spool.has_results = has_results
        for entry in entries:
            scheduler.apply_entry(entry)

    assert sent == ["site.deliver", "site.pulse", "site.pulse"]


def test_entries_follow_the_plan_and_keep_their_last_run(scheduler):
    plans = scheduler.app.agent.plans
    plans.store(plan(pinger=60, fast=10))
    before = dict(scheduler.schedule)
    assert {"ping pinger", "ping fast"} <= set(before)
    assert before["ping pinger"].args == ("pinger",)

    plans.store(plan("v2", pinger=60, fast=20))

    after = scheduler.schedule
    assert after["ping pinger"] is before["ping pinger"]
    assert after["ping fast"].schedule.every_s == 20
    plans.store(plan("v3"))
    assert set(scheduler.schedule) == set(CHORES) - {DISPATCH}


def test_a_message_expires_before_the_next_cycle(scheduler):
    scheduler.app.agent.plans.store(plan(pinger=60))

    assert scheduler.schedule["ping pinger"].options["expires"] < 60


def test_chores_are_due_at_start_but_cycles_at_their_boundary(scheduler, monkeypatch):
    sent = []
    scheduler.app.agent.plans.store(plan(pinger=3600))
    monkeypatch.setattr(scheduler, "apply_entry", lambda entry, producer=None: sent.append(entry.name))
    monkeypatch.setattr(PlanScheduler, "producer", None)

    for _ in range(3 * len(CHORES)):
        scheduler.tick()

    assert sorted(sent) == sorted(set(CHORES) - {DISPATCH})


def test_beat_does_not_ask_again_and_again_before_a_task_is_due(scheduler, monkeypatch):
    sent, now_s, ticks = [], 1_000_000_002.5, 0
    monkeypatch.setattr(scheduler.app.agent.cycle_clock, "now", lambda: at(now_s))
    monkeypatch.setattr(scheduler, "apply_entry", lambda entry, producer=None: sent.append((entry.name, now_s)))
    monkeypatch.setattr(PlanScheduler, "producer", None)
    scheduler._entries = {}
    scheduler.setup_schedule()

    while now_s < 1_000_000_062.5 and ticks < 1000:
        # A tick takes a while too.
        now_s += scheduler.tick() + 1e-5
        ticks += 1

    pulses_s = [at_s for name, at_s in sent if name == "site.pulse"][1:]
    assert pulses_s == pytest.approx([1_000_000_005 + 5 * number for number in range(12)], abs=0.01)
    assert ticks <= 60 + 3 * len(sent)


def test_after_a_clock_step_due_times_are_recomputed(scheduler, monkeypatch, caplog):
    monkeypatch.setattr(PlanScheduler, "producer", None)
    scheduler.tick()
    heap = scheduler._heap
    scheduler.tick()
    assert scheduler._heap is heap
    scheduler.app.agent.cycle_clock.ahead_s = lambda: 3600.0

    scheduler.tick()

    assert scheduler._heap is not heap
    assert lacks(caplog.text, "clock", " 3600.0 s") == []


def test_settings_reach_the_worker_through_the_environment(monkeypatch, tmp_path):
    settings = AgentSettings(centre="https://centre.example", token_file="/t", data=str(tmp_path))
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)

    assert from_environment() == settings


def test_a_worker_without_settings_prints_how_to_start_it(monkeypatch):
    monkeypatch.delenv("SOUNDINGS_AGENT_SETTINGS", raising=False)

    with pytest.raises(SettingsError, match="start `python -m probes site`"):
        from_environment()


def arguments(tmp_path, **options):
    (tmp_path / "token").write_text("t")
    (tmp_path / "token").chmod(0o600)
    defaults = {
        "centre": "http://127.0.0.1:9",
        "token_file": tmp_path / "token",
        "data": tmp_path / "data",
        "limits": None,
        "allow_plain_http": False,
    }
    return Namespace(**{**defaults, **options})


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (
            {"centre": "http://centre.example"},
            ("--centre http://centre.example:", "plain HTTP", "would show the token"),
        ),
        ({"token_file": Path("/nonexistent/token")}, ("--token-file /nonexistent/token",)),
        ({"limits": Path("/nonexistent/limits.toml")}, ("/nonexistent/limits.toml: ",)),
    ],
)
def test_invalid_settings_are_reported_before_anything_starts(tmp_path, capsys, options, facts):
    assert command.run(arguments(tmp_path, **options)) == 1

    assert lacks(capsys.readouterr().err, *facts) == []
    assert not (tmp_path / "data" / "log").exists()


def test_a_folder_has_a_single_agent(tmp_path, capsys):
    (tmp_path / "data").mkdir()

    with command._only_agent_of(tmp_path / "data"):
        status = command.run(arguments(tmp_path))

    assert status == 1
    assert "another agent runs on" in capsys.readouterr().err


def test_the_supervisor_uses_little_memory():
    """It runs for months beside the worker: neither the kinds nor what they need, not even OpenSSL, is imported."""
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, probes.site.supervisor; print(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    assert not {"celery", "msgspec", "numpy", "sqlite3", "probes.kinds", "argparse", "hashlib", "ssl"} & set(loaded)


@pytest.fixture
def same_current_app():
    """An agent's application becomes the current application of its process."""
    before = current_app._get_current_object()
    yield
    before.set_current()


def test_the_worker_knows_every_task_that_beat_and_slots_send(same_current_app):
    ran = []
    agent = SimpleNamespace(cycle=lambda kind, test: ran.append((kind.name, test)))

    app = make_app(agent)
    for kind in CYCLE_KINDS:
        app.tasks[task_name(kind)].run("narrowest")

    names = ("ping", "capacity", "trace", "stamp", "tcp-ping", "request-response", "interface")
    assert ran == [(name, "narrowest") for name in names]
    assert {*CHORES, "site.run_slot", "site.ping_cycle", "site.capacity_cycle"} <= set(app.tasks)
    assert {"site.trace_cycle", "site.stamp_cycle", "site.on_demand_ping", "site.on_demand_traces"} <= set(app.tasks)


@pytest.mark.parametrize("role", ["client", "server"])
def test_keys_are_generated_a_minute_ahead_of_the_slot(tmp_path, same_current_app, monkeypatch, role):
    """On a busy machine generating a key takes several seconds; a slot has room for three."""
    now, keys, sent = datetime.now(UTC), [], []
    spec = ThroughputSpec(address="192.0.2.2", one_time_key="of this slot")
    begins = now + timedelta(seconds=50)
    slot = ThroughputSlot(
        slot_id=5, path_id=7, test="tcp", role=role, starts_at=begins, ends_at=begins + timedelta(seconds=10), spec=spec
    )
    plan = Plan(version="1", site="cern", mesh="m", throughput=(slot,))
    agent = SimpleNamespace(
        plans=SimpleNamespace(current=lambda: plan),
        slots=Slots(Spool(tmp_path / "spool.sqlite3"), None, None, now=lambda: now),
        centre=SimpleNamespace(clock=SimpleNamespace(utc_now=lambda: now)),
    )
    monkeypatch.setattr("probes.transfers.iperf3.authentication.prepare_keys", keys.append)
    app = make_app(agent)

    def send(task, arguments, **options):
        sent.append((task.name, options.get("countdown")))
        if "countdown" not in options:
            task.run(*arguments)

    for name, task in app.tasks.items():
        if name.startswith("site."):
            monkeypatch.setattr(task, "apply_async", partial(send, task))

    app.tasks["site.dispatch_slots"].run()

    assert ("site.run_slot", pytest.approx(48)) in sent
    assert keys == ["of this slot"]
