"""Whether what the centre says is current: when it last evaluated, notified, rolled up, was delivered to.

In: marks that the worker's tasks leave (`note`), marks of dirty hours, what each agent's newest delivery left. Out:
`Freshness`, and of it what is older than it should be, in words for everybody: pages, API and metrics ask `stale_at`.
A centre whose worker has stopped opens no incident, and must not say that there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.archive.statements import ask, records


class Work(StrEnum):
    """What must be done again and again for the figures and incidents to be current."""

    EVALUATION = "evaluation"
    NOTIFICATION = "notification"
    SUMMARIES = "summaries"
    DELIVERY = "delivery"


LIMITS = {
    Work.EVALUATION: timedelta(minutes=2),  # each 10 s
    Work.NOTIFICATION: timedelta(minutes=5),  # each 5 s, and a slow channel holds the others up for half a minute
    Work.SUMMARIES: timedelta(minutes=10),  # each 10 s; after an outage it may take minutes
    Work.DELIVERY: timedelta(minutes=5),  # agents deliver seconds after each cycle
}
"""How old each may be. What is older by far less may be a busy machine."""
CYCLES_WITHOUT_DELIVERY = 2


@dataclass(frozen=True, slots=True)
class Stale:
    """Work that was last done at `since`, too long ago, or never since then; and what that means to a reader."""

    work: Work
    since: datetime
    sentence: str


@dataclass(frozen=True, slots=True)
class Freshness:
    """When each was last done; None where it never was. `summaries_wait_since` is when the oldest delivery came that is
    in no summary yet, `least_every_s` the shortest period of a test that sites run."""

    mesh_applied_at: datetime | None
    evaluated_at: datetime | None
    notified_at: datetime | None
    summaries_wait_since: datetime | None
    delivered_at: datetime | None
    least_every_s: int | None

    def stale_at(self, now: datetime) -> tuple[Stale, ...]:
        """What is older than it should be at `now`."""
        limits = dict(LIMITS)
        if self.least_every_s is not None:
            longest = timedelta(seconds=CYCLES_WITHOUT_DELIVERY * self.least_every_s)
            limits[Work.DELIVERY] = max(limits[Work.DELIVERY], longest)
        # What never was done should have been since there is a mesh; without a test nothing is delivered.
        since = {
            Work.EVALUATION: self.evaluated_at or self.mesh_applied_at,
            Work.NOTIFICATION: self.notified_at or self.mesh_applied_at,
            Work.SUMMARIES: self.summaries_wait_since,
            Work.DELIVERY: None if self.least_every_s is None else self.delivered_at,
        }
        return tuple(
            Stale(work, at, SENTENCES[work].format(at=f"{at:%Y-%m-%d %H:%M} UTC"))
            for work, at in since.items()
            if at is not None and now - at > limits[work]
        )


SENTENCES = {
    Work.EVALUATION: (
        "Incidents are not current: the alert rules have not been evaluated since {at}. What began later is not shown."
    ),
    Work.NOTIFICATION: "Nobody is told of incidents: no notification has been sent out since {at}.",
    Work.SUMMARIES: "Figures by hour and longer are not current: what was delivered since {at} is not in them.",
    Work.DELIVERY: "No site has delivered results since {at}.",
}


def load() -> Freshness:
    """How fresh everything is now."""
    return records(Freshness, *ask("freshness"))[0]


def note(work: Work, now: datetime) -> None:
    """Leave the mark that this work was done with what there was at `now`."""
    ask("note_run", name=str(work), at=now)
