"""Freshness of the centre's data: last evaluation, notification, rollup and delivery; pauses of the evaluation.

In: marks left by the worker's tasks (`note`), dirty hours, each agent's newest delivery. Out: `Freshness`, and from it
the overdue work with a message for users: pages, API and metrics call `stale_at`. A centre whose worker is down opens
no incidents and must not claim that there are none.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.archive.queries.metrics import Metric
from monitor.archive.queries.paths import series_tier
from monitor.archive.queries.tables import Tick, is_current, rolled_up_to
from monitor.archive.statements import LONGEST_RAW, records, run_statement


class RecurringWork(StrEnum):
    """Recurring work that keeps figures and incidents current."""

    EVALUATION = "evaluation"
    NOTIFICATION = "notification"
    SUMMARIES = "summaries"
    DELIVERY = "delivery"


LIMITS = {
    RecurringWork.EVALUATION: timedelta(minutes=2),  # each 10 s
    RecurringWork.NOTIFICATION: timedelta(minutes=5),  # each 5 s, and a slow channel delays the others by half a minute
    RecurringWork.SUMMARIES: timedelta(minutes=10),  # each 10 s; after an outage it may take minutes
    RecurringWork.DELIVERY: timedelta(minutes=5),  # agents deliver seconds after each cycle
}
"""Maximum age of each; well above the delays of a busy machine."""
LEAST_LAG = timedelta(minutes=1)
"""Summaries that lag by more say as of when they are."""
CYCLES_WITHOUT_DELIVERY = 2
LEAST_PAUSE = timedelta(minutes=5)
"""Shorter pauses of the evaluation are not told from samples, taken each minute, of which one is missing."""


@dataclass(frozen=True, slots=True)
class OverdueWork:
    """Overdue work last done at `since`, or never since then, with its message."""

    work: RecurringWork
    since: datetime
    sentence: str


@dataclass(frozen=True, slots=True)
class Freshness:
    """Last completion of each; None where never. `summaries_wait_since` is the arrival of the oldest delivery missing
    from summaries, `least_every_s` the shortest interval of a scheduled test."""

    mesh_applied_at: datetime | None
    evaluated_at: datetime | None
    notified_at: datetime | None
    summaries_wait_since: datetime | None
    delivered_at: datetime | None
    least_every_s: int | None

    def is_evaluated(self, now: datetime) -> bool:
        """Whether the alert rules are evaluated, by which the present is known."""
        return all(work.work is not RecurringWork.EVALUATION for work in self.stale_at(now))

    def stale_at(self, now: datetime) -> tuple[OverdueWork, ...]:
        """Work that is overdue at `now`."""
        limits = dict(LIMITS)
        if self.least_every_s is not None:
            longest = timedelta(seconds=CYCLES_WITHOUT_DELIVERY * self.least_every_s)
            limits[RecurringWork.DELIVERY] = max(limits[RecurringWork.DELIVERY], longest)
        # Work never done is overdue since the mesh exists; without tests there are no deliveries.
        since = {
            RecurringWork.EVALUATION: self.evaluated_at or self.mesh_applied_at,
            RecurringWork.NOTIFICATION: self.notified_at or self.mesh_applied_at,
            RecurringWork.SUMMARIES: self.summaries_wait_since,
            RecurringWork.DELIVERY: None if self.least_every_s is None else self.delivered_at,
        }
        return tuple(
            OverdueWork(work, at, SENTENCES[work].format(at=f"{at:%Y-%m-%d %H:%M} UTC"))
            for work, at in since.items()
            if at is not None and now - at > limits[work]
        )

    def summaries_lack_since(self, now: datetime) -> datetime | None:
        """The arrival of the oldest delivery that hourly summaries lack; None where that is within a minute."""
        return _beyond_least_lag(self.summaries_wait_since, now)


SENTENCES = {
    RecurringWork.EVALUATION: (
        "Incidents are not current: the alert rules have not been evaluated since {at}. Later problems are not shown."
    ),
    RecurringWork.NOTIFICATION: "Notifications are not being sent: the last run was at {at}.",
    RecurringWork.SUMMARIES: "Hourly and longer summaries are not current: results delivered since {at} are missing.",
    RecurringWork.DELIVERY: "No site has delivered results since {at}.",
}


@dataclass(frozen=True, slots=True)
class EvaluationPause:
    """Time in which the alert rules were not evaluated. `until` is None if they have not been since."""

    since: datetime
    until: datetime | None


def evaluation_pauses(since: datetime, until: datetime) -> list[EvaluationPause]:
    """Pauses of the evaluation that overlap [since, until), oldest first; `until` must not be in the future. Pauses
    before the oldest sample kept are unknown."""
    return records(EvaluationPause, *run_statement("evaluation_pauses", since=since, until=until, least=LEAST_PAUSE))


def load() -> Freshness:
    """Current freshness."""
    return records(Freshness, *run_statement("freshness"))[0]


def lacks_since(tick: Tick, now: datetime) -> datetime | None:
    """The arrival of the oldest result that the summaries of this tick lack; None where that is within a minute."""
    return _beyond_least_lag(rolled_up_to(tick), now)


def table_lacks_since(metric: Metric, tick: Tick, now: datetime) -> datetime | None:
    """Likewise of the latest ticks of a table."""
    return lacks_since(Tick.HOUR if is_current(metric, tick) else tick, now)


def series_lacks_since(since: datetime, until: datetime, now: datetime) -> datetime | None:
    """Likewise of the summaries of a path's series of this period; None where it comes from raw results."""
    return lacks_since(Tick(series_tier(since, until).tier), now) if until - since > LONGEST_RAW else None


def period_lacks_since(since: datetime, until: datetime, now: datetime) -> datetime | None:
    """Likewise of the hours that begin in [since, until)."""
    _, rows = run_statement("hours_wait_since", since=since, until=until)
    return _beyond_least_lag(rows[0][0], now)


def _beyond_least_lag(since: datetime | None, now: datetime) -> datetime | None:
    return since if since is not None and now - since > LEAST_LAG else None


def note(work: RecurringWork, now: datetime) -> None:
    """Record that this work was completed with the data available at `now`."""
    run_statement("note_run", name=str(work), at=now)
