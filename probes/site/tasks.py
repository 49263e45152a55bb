"""The agent's Celery application with thin tasks, on a queue in memory, without a result backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from celery import Celery

from probes.contract import CycleKind
from probes.kinds import CYCLE_KINDS
from probes.site.agent import Agent
from probes.site.runner import local_queue
from probes.site.runner.recent_numbers import RecentNumbers
from probes.site.runner.schedule import CHORES, PULSE, task_name
from probes.site.runner.slot import AHEAD as SLOTS_AHEAD
from probes.site.wire import OnDemandPing, OnDemandTrace, Plan, read_slot

REMEMBER_SLACK_S = 60.0
REMEMBER_REQUESTS_S = 3600.0


class AgentApp(Celery):
    """A Celery application that knows its agent; its tasks are not shared with later applications."""

    agent: Agent


def make_app(agent: Agent) -> AgentApp:
    # No fixups: Celery would load Django into the agent where the environment names its settings.
    app = AgentApp("soundings-site", broker=local_queue.URL, set_as_current=True, fixups=[])
    app.agent = agent
    app.conf.update(
        task_ignore_result=True,
        task_default_queue="site",
        timezone="UTC",
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_enable_remote_control=False,
        worker_redirect_stdouts=False,
        beat_max_loop_interval=CHORES[PULSE],
    )
    _add_chores(app, _add_measurements(app), _add_on_demand(app))
    return app


def _add_chores(app: AgentApp, dispatch: Callable[[], None], take_up: Callable[[Plan], None]) -> None:
    agent = app.agent

    @app.task(name=PULSE, shared=False)
    def heartbeat() -> None:
        agent.beat()

    def fetch_plan() -> None:
        before = agent.plans.current()
        if agent.puller.run():
            plan = agent.plans.current()
            if plan is not None:
                agent.load_probes()
                agent.slots.learn(before, plan)
                take_up(plan)
            # A test that somebody asked for begins soon.
            dispatch()

    @app.task(name="site.pull_plan", shared=False)
    def pull_plan() -> None:
        fetch_plan()

    @app.task(name="site.deliver", shared=False)
    def deliver() -> None:
        agent.delivery.run()
        if agent.puller.is_told_to_fetch():
            fetch_plan()


def _add_on_demand(app: AgentApp) -> Callable[[Plan], None]:
    pings, routes = RecentNumbers(), RecentNumbers()

    @app.task(name="site.on_demand_ping", shared=False)
    def run_ping(request: dict[str, Any]) -> None:
        app.agent.ping_on_demand(msgspec.convert(request, OnDemandPing))

    @app.task(name="site.on_demand_traces", shared=False)
    def run_traces(requests: list[dict[str, Any]]) -> None:
        app.agent.trace_on_demand(msgspec.convert(requests, list[OnDemandTrace]))

    def take_up(plan: Plan) -> None:
        for request in plan.pings_to_send:
            if pings.add(request.run_id, REMEMBER_REQUESTS_S):
                run_ping.apply_async((msgspec.to_builtins(request),))
        new = [trace for trace in plan.traces_to_run if routes.add(trace.run_id, REMEMBER_REQUESTS_S)]
        if new:
            run_traces.apply_async(([msgspec.to_builtins(trace) for trace in new],))

    return take_up


def _add_cycle(app: AgentApp, kind: CycleKind) -> None:
    @app.task(name=task_name(kind), shared=False)
    def run_cycle(test: str) -> None:
        app.agent.cycle(kind, test)


def _add_measurements(app: AgentApp) -> Callable[[], None]:
    agent = app.agent
    sent = RecentNumbers()

    for kind in CYCLE_KINDS:
        _add_cycle(app, kind)

    @app.task(name="site.run_slot", shared=False)
    def run_slot(slot: dict[str, Any]) -> None:
        agent.slots.run(read_slot(msgspec.json.encode(slot)))

    @app.task(name="site.prepare_slots", shared=False)
    def prepare_slots(slots: list[dict[str, Any]]) -> None:
        for slot in slots:
            agent.slots.prepare(read_slot(msgspec.json.encode(slot)))

    def dispatch() -> None:
        plan = agent.plans.current()
        new = []
        for slot in sorted(agent.slots.due(plan), key=lambda slot: slot.starts_at) if plan is not None else []:
            now = agent.centre.clock.utc_now()
            remember_s = max((slot.ends_at - now).total_seconds(), 0.0) + REMEMBER_SLACK_S
            if sent.add(slot.slot_id, remember_s):
                wait_s = (agent.slots.starts_at(slot) - now).total_seconds()
                run_slot.apply_async((msgspec.to_builtins(slot),), countdown=max(wait_s, 0.0))
                new.append(msgspec.to_builtins(slot))
        if new:
            prepare_slots.apply_async((new,), expires=SLOTS_AHEAD.total_seconds())

    @app.task(name="site.dispatch_slots", shared=False)
    def dispatch_slots() -> None:
        dispatch()

    return dispatch
