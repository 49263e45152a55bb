"""`python -m probes site status`: the agent's state from the data folder alone.

Exit status 0 if it works, 1 if not, or if the centre refuses it.
"""

from __future__ import annotations

import argparse
import fcntl
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from probes.commands.own_command import agent_command
from probes.quantities import counted
from probes.site.health import Health
from probes.site.journal import DatedMessage, WorkerState, read_state
from probes.site.plan import PlanCache
from probes.site.settings import lock_file, plan_file, spool_file, state_file
from probes.site.spool.contents import SpoolContents, read_contents
from probes.site.spool.spool import SpoolError
from probes.site.wire import Plan
from probes.supervision.liveness import MAX_SILENCE_S


class AgentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of an agent; None without a process or file."""

    data: str
    process_id: int | None  # the supervisor's
    state: WorkerState | None
    silent_s: float | None
    plan: Plan | None
    spool: SpoolContents | None

    @property
    def measures(self) -> bool:
        return self.process_id is not None and self.silent_s is not None and self.silent_s < MAX_SILENCE_S

    @property
    def refusal(self) -> DatedMessage | None:
        """The centre's reason for refusing this agent."""
        return None if self.state is None else self.state.refusal

    @property
    def works(self) -> bool:
        return self.measures and self.refusal is None


def run(args: argparse.Namespace) -> int:
    """0 when the agent works, 1 otherwise."""
    now = datetime.now(UTC)
    try:
        status = read_status(args.data.resolve(), now)
    except PermissionError:
        raise
    except (SpoolError, OSError) as error:
        print(f"site: status: {error}", file=sys.stderr)
        return 1
    print(as_json(status) if args.json else "\n".join(lines(status, now)))
    return 0 if status.works else 1


def read_status(data: Path, now: datetime) -> AgentStatus:
    """Raises `SpoolError` or OSError where a file cannot be read."""
    state = read_state(state_file(data))
    return AgentStatus(
        data=str(data),
        process_id=_supervisor(lock_file(data)),
        state=state,
        silent_s=None if state is None else (now - state.written_at).total_seconds(),
        plan=PlanCache(plan_file(data)).current(),
        spool=read_contents(spool_file(data)) if spool_file(data).exists() else None,
    )


def as_json(status: AgentStatus) -> str:
    """As JSON, with the plan's version instead of the plan."""
    fields = msgspec.to_builtins(status)
    fields["plan"] = None if status.plan is None else status.plan.version
    return msgspec.json.encode({**fields, "works": status.works}).decode()


def lines(status: AgentStatus, now: datetime) -> list[str]:
    fields = {
        "agent": _agent(status),
        "plan": "none yet" if status.plan is None else _plan(status.plan),
        "running": _running(status, now),
        "queued": "no spool yet" if status.spool is None else _queued(status.spool, status.state, now),
    }
    if status.spool is not None and status.spool.set_aside:
        fields["quarantined"] = _aside(status.spool)
    if status.spool is not None and status.spool.dropped:
        fields["dropped"] = ", ".join(
            f"{dropped.count} {dropped.kind} ({dropped.reason})" for dropped in status.spool.dropped_for
        )
    if status.state is not None and status.state.health is not None:
        fields["health"] = _health(status.state.health)
    if status.refusal is not None:
        fields["refused"] = f"{_moment(status.refusal.at)} {status.refusal.message}"
    fields["error"] = _last_error(status.state)
    return [f"{name:<11} {text}" for name, text in fields.items()]


def _supervisor(lock: Path) -> int | None:
    if not lock.exists():
        return None
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = file.read().strip()
            return int(text) if text.isdecimal() else 0
    return None


def _agent(status: AgentStatus) -> str:
    state = status.state
    if status.process_id is None:
        return f"not running on {status.data}; start it: {agent_command('run')} --data {status.data}"
    if state is None or not status.measures:
        return f"process {status.process_id} runs, but its worker does not respond; see {status.data}/log/worker.log"
    process = f"(process {status.process_id}, since {_moment(state.started_at)}, version {state.agent_version})"
    if status.works:
        return f"works {process} for {state.centre}"
    return f"measures {process}, but {state.centre} refuses its results; they stay in the backlog"


def _plan(plan: Plan) -> str:
    return f"{plan.version} of site {plan.site}: {plan.contents}"


def _running(status: AgentStatus, now: datetime) -> str:
    cycles = status.state.running if status.measures and status.state is not None else ()
    named = [f"{cycle.name} for {_age(now, cycle.since)}" for cycle in cycles]
    if status.spool is not None:
        slots = zip(status.spool.slot_kinds, status.spool.slots, strict=False)
        named += [f"{kind} slot {slot_id}" for kind, slot_id in slots]
    return ", ".join(named) or "nothing"


def _queued(spool: SpoolContents, state: WorkerState | None, now: datetime) -> str:
    accepted_at = None if state is None else state.last_accepted_at
    accepted = (
        "none accepted since the agent started"
        if accepted_at is None
        else f"last accepted {_age(now, accepted_at)} ago"
    )
    backlog = f"{counted(spool.queued, 'result')} in the backlog"
    return f"{backlog}, {spool.set_aside} quarantined, {spool.dropped} dropped in total; {accepted}"


def _aside(spool: SpoolContents) -> str:
    reasons = "; ".join(f"{count} × {reason}" for reason, count in spool.set_aside_for)
    others = spool.set_aside - sum(count for _, count in spool.set_aside_for)
    return reasons + (f"; {others} for other reasons" if others else "")


def _health(health: Health) -> str:
    parts = ["clock offset from the centre unknown"]
    if health.clock_offset_s is not None and health.clock_uncertainty_s is not None:
        way = "ahead of" if health.clock_offset_s >= 0 else "behind"
        parts = [f"clock {abs(health.clock_offset_s):.3f} s {way} the centre's (± {health.clock_uncertainty_s:.3f} s)"]
    if health.kernel_clock is not None and not health.kernel_clock.is_synchronised:
        parts.append("not synchronised by NTP")
    if health.load_1min is not None:
        parts.append(f"load {health.load_1min:.2f} on {counted(health.cpus or 1, 'CPU')}")
    parts.append(counted(health.lost_ticks, "missed cycle"))
    if health.bugs:
        parts.append(f"{counted(health.bugs, 'unexpected error')} (see the log)")
    parts += [f"{drops.interface} dropped {drops.received} in, {drops.sent} out" for drops in health.drops]
    return ", ".join(parts)


def _last_error(state: WorkerState | None) -> str:
    if state is None or state.last_trouble is None:
        return "none since the agent started"
    return f"{_moment(state.last_trouble.at)} {state.last_trouble.message}"


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _age(now: datetime, then: datetime) -> str:
    return f"{max(0.0, (now - then).total_seconds()):.0f} s"
