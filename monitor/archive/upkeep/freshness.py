"""Freshness of the centre's data, and overdue work with messages for users.

A centre with its worker down opens no incidents and must not claim that there are none.
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
    EVALUATION = "evaluation"
    NOTIFICATION = "notification"
    SUMMARIES = "summaries"
    DELIVERY = "delivery"


# Maximum age of each; well above the delays of a busy machine.
LIMITS = {
    RecurringWork.EVALUATION: timedelta(minutes=2),  # each 10 s
    RecurringWork.NOTIFICATION: timedelta(minutes=5),  # each 5 s, and a slow channel delays the others by half a minute
    RecurringWork.SUMMARIES: timedelta(minutes=10),  # each 10 s; after an outage it may take minutes
    RecurringWork.DELIVERY: timedelta(minutes=5),  # agents deliver seconds after each cycle
}
# Summaries with a larger lag state their time.
LEAST_LAG = timedelta(minutes=1)
CYCLES_WITHOUT_DELIVERY = 2
# A shorter pause cannot be told from a missing sample; samples are taken each minute.
LEAST_PAUSE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class OverdueWork:
    """Overdue work, last done at `since` or never since then."""

    work: RecurringWork
    since: datetime
    sentence: str


@dataclass(frozen=True, slots=True)
class Freshness:
    """Last completion of each work; None if never."""

    mesh_applied_at: datetime | None
    evaluated_at: datetime | None
    notified_at: datetime | None
    summaries_wait_since: datetime | None  # arrival of the oldest delivery missing from summaries
    delivered_at: datetime | None
    least_every_s: int | None  # shortest interval of a scheduled test

    def is_evaluated(self, now: datetime) -> bool:
        return all(work.work is not RecurringWork.EVALUATION for work in self.stale_at(now))

    def stale_at(self, now: datetime) -> tuple[OverdueWork, ...]:
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
        """Arrival of the oldest delivery missing from hourly summaries; None within a minute."""
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
    """Time without evaluation of the alert rules; `until` is None if it lasts."""

    since: datetime
    until: datetime | None


def evaluation_pauses(since: datetime, until: datetime) -> list[EvaluationPause]:
    """Evaluation pauses that overlap [since, until), oldest first, as far as samples are kept; `until` must not be in
    the future."""
    return records(EvaluationPause, *run_statement("evaluation_pauses", since=since, until=until, least=LEAST_PAUSE))


def load() -> Freshness:
    return records(Freshness, *run_statement("freshness"))[0]


def lacks_since(tick: Tick, now: datetime) -> datetime | None:
    """Arrival of the oldest result missing from this tick's summaries; None within a minute."""
    return _beyond_least_lag(rolled_up_to(tick), now)


def table_lacks_since(metric: Metric, tick: Tick, now: datetime) -> datetime | None:
    """As `lacks_since`, for a table's latest ticks."""
    return lacks_since(Tick.HOUR if is_current(metric, tick) else tick, now)


def series_lacks_since(since: datetime, until: datetime, now: datetime) -> datetime | None:
    """As `lacks_since`, for a path's series; None where it comes from raw results."""
    return lacks_since(Tick(series_tier(since, until).tier), now) if until - since > LONGEST_RAW else None


def period_lacks_since(since: datetime, until: datetime, now: datetime) -> datetime | None:
    """As `lacks_since`, for hours that begin in [since, until)."""
    _, rows = run_statement("hours_wait_since", since=since, until=until)
    return _beyond_least_lag(rows[0][0], now)


def _beyond_least_lag(since: datetime | None, now: datetime) -> datetime | None:
    return since if since is not None and now - since > LEAST_LAG else None


def note(work: RecurringWork, now: datetime) -> None:
    """Record that this work was completed with data of `now`."""
    run_statement("note_run", name=str(work), at=now)
