"""What the stored track of a finding says, for tests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from monitor.alerts.incidents.own_track import normal_since, own_track, peak_of
from monitor.alerts.models import IncidentPath
from monitor.analysis.changes.present import LostPackets
from monitor.analysis.segments.loss_segments import LossSegment


@dataclass(frozen=True)
class ShownLevel:
    """The figure now and at its worst, in the time from `since` to `newest_at`; the packets of a loss; the newest
    outage of the path; and since when it is over."""

    now: float | None
    peak: float | None
    since: datetime
    newest_at: datetime
    counts: LostPackets | None
    last_reply: datetime | None
    first_reply: datetime | None
    over_since: datetime | None

    @property
    def sent(self) -> float | None:
        return None if self.counts is None else self.counts.sent

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.counts is None else self.counts.interval

    @property
    def window_s(self) -> float:
        return (self.newest_at - self.since).total_seconds()


def stored_loss(sent: int, lost: int, since: datetime, until: datetime) -> dict[str, object]:
    """The stored track of a finding of a loss that has ended."""
    begun_s, ended_s = since.timestamp(), until.timestamp()
    segments = [[1, begun_s, None, begun_s, sent, lost, 1.0], [0, ended_s, None, ended_s, 2_000, 0, 1.0]]
    return {"condition": 0, "newest_s": ended_s, "segments": segments}


def level_of(row: IncidentPath) -> ShownLevel | None:
    track = own_track(row)
    if track is None or track.now is None:
        return None
    lost = track.now.lost if isinstance(track.now, LossSegment) else None
    last, first = (None, None) if track.outage is None else track.outage
    return ShownLevel(
        track.level,
        peak_of(row),
        _time(track.now.since.at_s),
        _time(track.newest_s),
        lost,
        None if last is None else _time(last.at_s),
        None if first is None else _time(first.at_s),
        normal_since(row),
    )


def _time(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)
