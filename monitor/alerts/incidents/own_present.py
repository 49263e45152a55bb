"""The present state of an incident's paths, by the tracks of its own signals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect, RuleFinding, Trouble
from monitor.alerts.detect.rules.round_trips import RTT
from monitor.alerts.detect.rules.route_change import ROUTE_CHANGE
from monitor.alerts.models import Incident, IncidentPath
from monitor.analysis.segments.delay_segments import USUAL, DelaySegment
from monitor.present import read
from monitor.present.conditions import CALM, UNKNOWN, Condition
from monitor.present.read import PresentPath
from monitor.present.track import Signal, Track

# Ping conditions that hold for all signals of a path.
OF_PATH = (*UNKNOWN, Condition.SET_ASIDE)


def signal_of(row: IncidentPath | RuleFinding) -> Signal:
    rule = rule_of(row.rule)
    if rule.effect in (Effect.LOSS, Effect.UNREACHABLE):
        return Signal.LOSS
    if is_rise(row) and DIRECTION not in row.figures:
        return Signal.RTT
    if row.figures.get("figure") == "jitter":
        return Signal.JITTER
    return {Trouble.THROUGHPUT: Signal.RATE, Trouble.RESPONSES: Signal.RESPONSE}.get(rule.trouble, Signal.OTHER)


def is_rise(row: IncidentPath | RuleFinding) -> bool:
    """Whether a finding is of a longer RTT."""
    figures = row.figures
    figure = "median" if rule_of(row.rule) is ROUTE_CHANGE else figures.get("figure")
    is_longer = figures.get("after_ms", 0.0) > figures.get("before_ms", 0.0)
    return bool(is_longer and figure in ("median", "minimum"))


def way_of(row: IncidentPath) -> str:
    """The STAMP direction of a finding's track; empty for round trips."""
    return str(row.figures.get(DIRECTION, ""))


def track_of(row: IncidentPath, path: PresentPath | None) -> Track | None:
    """The track of a finding's signal since the finding; None if the path has none."""
    track = None if path is None else path.track(signal_of(row), way=way_of(row))
    return None if track is None else track.without_ended(row.since.timestamp())


def lasting_rows(incident: Incident) -> list[IncidentPath]:
    """The findings that last, or all of an ended incident."""
    rows = list(incident.paths.all())
    return [row for row in rows if not row.is_over] or rows


def load_present(incidents: Iterable[Incident], others: Collection[int] = ()) -> dict[int, PresentPath]:
    """Load the present of these incidents' paths and others: a query, none without paths."""
    path_ids = {row.path_id for incident in incidents for row in incident.paths.all()}.union(others)
    return read.load(path_ids) if path_ids else {}


def shown_by_tracks(firing: Sequence[RuleFinding], present: Mapping[int, PresentPath]) -> list[RuleFinding]:
    """Drop RTT rises that the track shows as usual again."""
    rises = [of for of in firing if of.rule == RTT.name and is_rise(of) and not of.figures.get("is_slow")]
    returns = [finding for finding in rises if _is_usual_again(present.get(finding.path_id), finding)]
    return [finding for finding in firing if finding not in returns]


def _is_usual_again(present: PresentPath | None, rise: RuleFinding) -> bool:
    # Whether the RTT track shows the rise as over; STAMP may use another route.
    track = None if present is None else present.track(Signal.RTT)
    if track is None:
        return False
    if DIRECTION in rise.figures:
        half_ms = (float(rise.figures["before_ms"]) + float(rise.figures["after_ms"])) / 2.0
        return isinstance(track.now, DelaySegment) and track.now.state == USUAL and track.now.median_ms > half_ms
    return not track.trouble or (track.end is not None and track.end.at_s <= rise.since.timestamp())


def own_present(incident: Incident, present: Mapping[int, PresentPath]) -> list[PresentPath]:
    """An incident's paths with tracks of its signals since its findings; paths without are left out."""
    signals: dict[int, dict[Signal, float]] = {}
    for row in lasting_rows(incident):
        of_path, signal, since_s = signals.setdefault(row.path_id, {}), signal_of(row), row.since.timestamp()
        of_path[signal] = min(since_s, of_path.get(signal, since_s))
    own = [_only(present[path_id], of_path) for path_id, of_path in signals.items() if path_id in present]
    known = [path for path in own if path is not None]
    current = {path.path_id for path in known if path.condition not in OF_PATH}
    ends = {row.path_id: (row.path.source_id, row.path.destination_id) for row in lasting_rows(incident)}
    measured = {ends[path_id] for path_id in current}
    # Pings of either path of a pair cross both directions: those that arrive tell of both.
    return [path for path in known if path.path_id in current or ends[path.path_id][::-1] not in measured]


def _only(path: PresentPath, since_s: Mapping[Signal, float]) -> PresentPath | None:
    tracks = tuple(track.without_ended(since_s[track.signal]) for track in path.tracks if track.signal in since_s)
    if not tracks:
        return None
    condition, pinged = max(track.condition for track in tracks), path.track(Signal.LOSS)
    if pinged is not None and pinged.condition in OF_PATH and not since_s.keys().isdisjoint({Signal.LOSS, Signal.RTT}):
        condition = pinged.condition
    return replace(path, condition=condition, tracks=tracks)


def is_still_bad(row: IncidentPath, path: PresentPath | None) -> bool:
    """Whether any track of the finding's signal is in trouble, even of a single packet size or direction."""
    own = None if path is None else _only(path, {signal_of(row): row.since.timestamp()})
    return own is not None and own.condition.is_trouble


def is_over(own: Sequence[PresentPath]) -> bool:
    """Whether all these paths are normal again: the incident waits to be resolved."""
    return bool(own) and all(path.condition in CALM and _has_ended(path) for path in own)


def _has_ended(path: PresentPath) -> bool:
    return any(track.end is not None or not track.segments for track in path.tracks)


def over_since(own: Sequence[PresentPath]) -> datetime | None:
    """When the last trouble of these paths ended; None while any lasts, or if no track tells."""
    ends = [
        track.end.at_s for path in own for track in path.tracks if track.packet_bytes == 0 and track.end is not None
    ]
    return datetime.fromtimestamp(max(ends), UTC) if ends and is_over(own) else None
