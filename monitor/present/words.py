"""Describe a trouble of paths, ongoing or over, in words; docs/pages.md has the forms. Times are absolute, in UTC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from monitor.analysis import figures
from monitor.analysis.changes.present import LostPackets, summed
from monitor.analysis.directions import LostDirection
from monitor.analysis.segments.delay_segments import DelaySegment
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.analysis.segments.segment import Moment
from monitor.analysis.segments.stretches import DEAD
from monitor.present.conditions import FLAPS, UNKNOWN, Condition
from monitor.present.read import PresentPath
from monitor.present.track import Signal, Track

# The words for a signal that is not followed.
OTHER = {
    Signal.RATE: "low throughput",
    Signal.RESPONSE: "slow responses",
    Signal.OTHER: "unusual delays",
    Signal.JITTER: "more jitter than usual",
}


def clause(place: str, paths: Sequence[PresentPath], of_paths: int | None = None, at: datetime | None = None) -> str:
    """Describe paths with one trouble: `ornl → slac loses 3% since 13:34:02 UTC`, or how it ended. `of_paths` is the
    place's total, `at` the reading."""
    worst, bad = _worst_paths(paths)
    tracks = [path.worst for path in bad]
    match worst:
        case None:
            lasting = [path for path in paths if any(map(_lasted, path.tracks))]
            return _last(place, lasting, at) if lasting else _over(place, paths, at)
        case Condition.DEAD:
            named = f"{place}: {len(bad)} of {of_paths} paths" if of_paths is not None and of_paths > 2 else place
            return f"{named} dead since {_clock(_narrowest(map(_silence, tracks)), at)}"
        case Condition.FLAPS:
            return f"{place} {_flaps(tracks, at)}"
        case _:
            return _worse(place, bad, at)


def begun(paths: Sequence[PresentPath]) -> datetime | None:
    """Start of the paths' present trouble: newest outage, first of several in a row, or onset; None if unknown."""
    worst, bad = _worst_paths(paths)
    tracks = [path.worst for path in bad]
    if worst is Condition.FLAPS:
        begun_s = _first_outage_s(_most_outages(tracks))
    else:
        onset = _narrowest(map(_silence, tracks)) if worst is Condition.DEAD else _onset(_gravest(tracks))
        begun_s = None if onset is None else onset.at_s
    return None if begun_s is None else datetime.fromtimestamp(begun_s, UTC)


def _worst_paths(paths: Iterable[PresentPath]) -> tuple[Condition | None, list[PresentPath]]:
    """The worst condition of these paths that is a trouble, and the paths described with it."""
    troubled = [path for path in paths if path.condition.is_trouble]
    worst = max((path.condition for path in troubled), default=None)
    # A path whose loss is about at its limit is bad at one look and suspect at the next: the figure would jump.
    alike = (Condition.SUSPECT, Condition.BAD) if worst is Condition.BAD else (worst,)
    return worst, [path for path in troubled if path.condition in alike]


def place(path: PresentPath, source: str, destination: str) -> str:
    """`ornl → slac` if STAMP shows the only lossy way, else `ornl ↔ slac`."""
    ways = {LostDirection.FORWARD: f"{source} → {destination}", LostDirection.REVERSE: f"{destination} → {source}"}
    return ways[LostDirection(path.way)] if path.way else " ↔ ".join(sorted((source, destination)))


def moment(at_s: float, at: datetime | None) -> str:
    """`13:34:02 UTC`, with the day if not the reading's."""
    of = datetime.fromtimestamp(at_s, UTC)
    is_today = at is None or at.astimezone(UTC).date() == of.date()
    return f"{of:%H:%M:%S} UTC" if is_today else f"{of:%Y-%m-%d %H:%M} UTC"


def level(track: Track) -> str:
    """The level of the newest segment: `3%`, `about 20%`, `162 ms`; empty without any."""
    if isinstance(track.now, LossSegment):
        return lost_text(track.now.lost)
    return rtt_text(track.now.median_ms) if isinstance(track.now, DelaySegment) else ""


def peak_text(track: Track) -> str:
    """The worst RTT, or the lowest rate, of a track; empty without any."""
    if track.peak is None:
        return ""
    return (figures.bit_rate if track.signal is Signal.RATE else figures.milliseconds)(track.peak)


def lost_text(lost: LostPackets) -> str:
    """A loss with as many digits as its packets prove: `3%`, `about 20%`, `0 of 472` without loss."""
    if not lost.sent:
        return figures.NO_DATA
    if not lost.lost:
        return f"0 of {figures.count(round(lost.sent))}"
    low, high = lost.interval
    return lost.short_text.replace("~", "about " if high - low > lost.ratio else "")


def rtt_text(median_ms: float) -> str:
    """An RTT to three digits: `162 ms`, `0.233 ms`."""
    return f"{median_ms:.3g} ms" if median_ms < 1000.0 else f"{median_ms:,.0f} ms"


def _worse(place: str, paths: Sequence[PresentPath], at: datetime | None) -> str:
    own = _gravest([path.worst for path in paths])
    signal = own[0].signal
    if signal is Signal.LOSS:
        losses = [track.now for track in own if isinstance(track.now, LossSegment)]
        return f"{place} loses {_losses(losses)}{_since(own, at)}"
    if signal is Signal.RTT:
        longer = max((track.now for track in own if isinstance(track.now, DelaySegment)), key=lambda of: of.median_ms)
        return f"{place}: RTT {rtt_text(longer.median_ms)}{_since(own, at)}{_was(own)}"
    return f"{place}: {OTHER[signal]}"


def _losses(segments: Sequence[LossSegment]) -> str:
    """`3%`, `99% of packets of 1,000 bytes`."""
    sizes = {segment.packet_bytes for segment in segments}
    packets = f" of packets of {figures.count(*sizes)} bytes" if len(sizes) == 1 and sizes != {0} else ""
    return f"{lost_text(summed([segment.lost for segment in segments]))}{packets}"


def _gravest(tracks: Sequence[Track]) -> list[Track]:
    signal = min((track.signal for track in tracks), default=None)
    return [track for track in tracks if track.signal == signal]


def _was(tracks: Iterable[Track]) -> str:
    """` (was 102 ms)`; empty where no usual RTT is known."""
    every = [segment for track in tracks for segment in track.segments if isinstance(segment, DelaySegment)]
    usual = [segment for segment in every if not segment.state]
    return f" (was {rtt_text(usual[0].median_ms)})" if usual else ""


def _flaps(tracks: Sequence[Track], at: datetime | None) -> str:
    track = _most_outages(tracks)
    is_dead = track.now is not None and track.now.state == DEAD
    lasted_s = sorted(end_s - begin_s for begin_s, end_s in track.outages)
    begun_s = _first_outage_s(track)
    number, since = len(lasted_s) + is_dead, "" if begun_s is None else moment(begun_s, at)
    # To 10 s: with each outage the middle one differs by a second.
    about = f" of about {figures.duration(round(lasted_s[len(lasted_s) // 2], -1))}" if lasted_s else ""
    return f"flaps: {number} outages{about} since {since}, {'dead' if is_dead else 'answers'} now"


def _most_outages(tracks: Sequence[Track]) -> Track:
    return max(tracks, key=lambda of: len(of.outages))


def _first_outage_s(track: Track) -> float | None:
    return track.outages[0][0] if track.outages else None


def _lasted(track: Track) -> bool:
    # Between outages too.
    has_flapped = track.condition in UNKNOWN and len(track.outages) >= FLAPS
    return bool(track.trouble) and (track.end is None or has_flapped)


def _last(place: str, paths: Sequence[PresentPath], at: datetime | None) -> str:
    """The last known state, for paths now unknown or in maintenance."""
    newest_s = max(track.newest_s for path in paths for track in path.tracks)
    return f"{past(place, paths)} as of {moment(newest_s, at)}"


def _over(place: str, paths: Sequence[PresentPath], at: datetime | None) -> str:
    for signal, say in ((Signal.LOSS, _loss_over), (Signal.RTT, _rtt_over)):
        tracks = [
            track for path in paths for track in path.tracks if track.signal == signal and track.packet_bytes == 0
        ]
        ended = [track for track in tracks if track.end is not None]
        if ended:
            return say(place, ended, at)
    return f"{place}: normal again"


def _loss_over(place: str, tracks: Sequence[Track], at: datetime | None) -> str:
    end_s = max(track.end.at_s for track in tracks if track.end is not None)
    troubles = [segment for track in tracks for segment in track.trouble if isinstance(segment, LossSegment)]
    if any(segment.state == DEAD for segment in troubles):
        silence = _clock(_narrowest(map(_silence, tracks)), at)
        return f"{place} answers again since {moment(end_s, at)}; dead from {silence}"
    return f"{place}: no more loss since {moment(end_s, at)}; {_worst(tracks)} from {_clock(_onset(tracks), at)}"


def _worst(tracks: Iterable[Track]) -> str:
    """The worst loss of these tracks' troubles, by its lower bound; several tracks are pooled."""
    losses = [[of for of in track.trouble if isinstance(of, LossSegment) and of.lost.lost] for track in tracks]
    worst = [max(of_track, key=lambda of: of.lost.interval[0]) for of_track in losses if of_track]
    return _losses(worst) if worst else "packets"


def _rtt_over(place: str, tracks: Sequence[Track], at: datetime | None) -> str:
    track = max(tracks, key=lambda of: 0.0 if of.end is None else of.end.at_s)
    worst_ms = max(segment.worst_ms for segment in track.trouble if isinstance(segment, DelaySegment))
    assert isinstance(track.now, DelaySegment)
    assert track.end is not None
    now, end = rtt_text(track.now.median_ms), moment(track.end.at_s, at)
    return f"{place}: RTT normal again ({now}) since {end}; {rtt_text(worst_ms)} from {_clock(_onset(tracks), at)}"


def _since(tracks: Iterable[Track], at: datetime | None) -> str:
    """` since 13:34:02 UTC`; empty where the start is not known."""
    onset = _onset(tracks)
    return "" if onset is None else f" since {_clock(onset, at)}"


def _onset(tracks: Iterable[Track]) -> Moment | None:
    return _narrowest(track.onset for track in tracks)


def _silence(track: Track) -> Moment | None:
    """Start of a path's newest outage; loss may precede it."""
    return next((segment.since for segment in reversed(track.trouble) if segment.state == DEAD), None)


def _narrowest(moments: Iterable[Moment | None]) -> Moment | None:
    """The moment with the narrowest interval, of several the earliest."""
    known = (moment for moment in moments if moment is not None)
    return min(known, key=lambda of: (of.width_s, of.at_s), default=None)


def _clock(of: Moment | None, at: datetime | None) -> str:
    return figures.NO_DATA if of is None else moment(of.at_s, at)


def past(place: str, paths: Sequence[PresentPath], of_paths: int | None = None) -> str:
    """Past trouble in short, for a title: `ornl → slac lost 3%`."""
    tracks = [track for path in paths for track in path.tracks if track.packet_bytes == 0 and track.trouble]
    dead = [track for track in tracks if any(segment.state == DEAD for segment in track.trouble)]
    if dead:
        named = f"{place}: {len(dead)} of {of_paths} paths" if of_paths is not None and of_paths > 2 else place
        return f"{named} dead" if len(dead[0].outages) < FLAPS else f"{place} flapped: {len(dead[0].outages)} outages"
    if any(track.signal is Signal.LOSS for track in tracks):
        return f"{place} lost {_worst(tracks)}"
    delays = [segment for track in tracks for segment in track.trouble if isinstance(segment, DelaySegment)]
    if delays:
        return f"{place}: RTT {rtt_text(max(segment.worst_ms for segment in delays))}{_was(tracks)}"
    return ""
