"""A path's present in words, as in the grids' cells."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.analysis import figures
from monitor.analysis.directions import DirectionLosses
from monitor.analysis.segments.loss_segments import LossSegment
from monitor.overview.path_figures import FigureState, PathFigures
from monitor.overview.path_now import PathNow
from monitor.present import words
from monitor.present.conditions import Condition
from monitor.present.track import Signal, Track
from monitor.web.pages.grid import cells
from monitor.web.request import times


@dataclass(frozen=True, slots=True)
class PresentRow:
    name: str
    now: str
    hour: str


@dataclass(frozen=True, slots=True)
class PathPresent:
    when: str = "now"  # `now`, or the time of the newest data
    signs: tuple[tuple[str, str], ...] = ()  # of the loss cell, each with its style
    figures: tuple[tuple[str, str], ...] = ()  # names with texts
    sentence: str = ""  # loss cell in full
    rows: tuple[PresentRow, ...] = ()  # loss of each packet size, RTT, directions
    check: str = ""  # state of a path in trouble without an open incident


def path_present(path_now: PathNow) -> PathPresent:
    """Empty where nothing pings the path."""
    if not path_now.loss.figures or not path_now.rtt.figures:
        return PathPresent()
    (loss,), (rtt,), grid = path_now.loss.figures, path_now.rtt.figures, path_now.loss
    track = grid.track_of(loss)
    is_stale = track is not None and grid.condition_of(loss) in cells.STALE and loss.has_figure
    is_checked = loss.incident_id is None and loss.is_in_trouble
    return PathPresent(
        f"as of {times.clock_of(track.newest_s, grid.until)}" if track is not None and is_stale else "now",
        tuple(cells.signs(grid, loss)),
        _figures(path_now, loss, rtt),
        cells.sentence(grid, loss),
        tuple(_rows(path_now, loss, rtt)),
        f"Being checked: {cells.clause(path_now.present, grid.until)}" if is_checked else "",
    )


def _figures(path_now: PathNow, loss: PathFigures, rtt: PathFigures) -> tuple[tuple[str, str], ...]:
    unanswered_since = path_now.loss.cell_now(loss).unanswered_since
    if loss.state is FigureState.TOTAL_LOSS and unanswered_since is not None:
        return (("no reply since", times.clock_of(unanswered_since.timestamp(), path_now.loss.until)),)
    if not loss.has_figure:
        return (("", cells.own_text(path_now.loss, loss)),)
    of_loss, other = ("loss", cells.own_text(path_now.loss, loss)), cells.other_trouble(path_now.loss, loss)
    if other and path_now.present is not None and path_now.present.worst.signal is Signal.LOSS:
        of_loss = (f"loss, {other}", words.level(path_now.present.worst))
    return of_loss, ("median RTT", cells.own_text(path_now.rtt, rtt))


def _rows(path_now: PathNow, loss: PathFigures, rtt: PathFigures) -> list[PresentRow]:
    rows = _losses(path_now)
    rtts_ms = [of.rtt_median_ms for of in path_now.of_hour if of.packet_bytes == path_now.loss.packet_bytes]
    if rtts_ms:
        rows.append(PresentRow("median RTT", cells.cell_text(path_now.rtt, rtt), figures.milliseconds(rtts_ms[0])))
    if loss.directions is not None:
        by_way = zip(_ways(loss.directions), _ways(path_now.directions_of_hour), strict=True)
        names = ("forward, by STAMP", "reverse, by STAMP")
        rows += [PresentRow(name, *of_way) for name, of_way in zip(names, by_way, strict=True)]
    return rows


def _losses(path_now: PathNow) -> list[PresentRow]:
    """The loss of all packets and of each size; now only of sizes that differ."""
    present, of_hour = path_now.present, path_now.of_hour
    of_path = None if present is None else present.track(Signal.LOSS)
    is_by_size = of_path is not None and of_path.packet_bytes_lost > 0
    rows = []
    if of_hour and not is_by_size:
        sent, received = sum(of.sent for of in of_hour), sum(of.received for of in of_hour)
        rows.append(PresentRow("loss", _loss_now(path_now, of_path), figures.loss_evidence(sent, received)))
    for of in of_hour if len(of_hour) > 1 else ():
        own = present.track(Signal.LOSS, of.packet_bytes) if is_by_size and present is not None else None
        now = "" if own is None else _loss_now(path_now, own)
        name = f"loss, {figures.count(of.packet_bytes)} B"
        rows.append(PresentRow(name, now, figures.loss_evidence(of.sent, of.received)))
    return rows


def _loss_now(path_now: PathNow, track: Track | None) -> str:
    if track is None or not isinstance(track.now, LossSegment):
        return figures.NO_DATA
    since = times.clock_of(track.now.since.at_s, path_now.loss.until)
    return f"no reply since {since}" if track.condition is Condition.DEAD else f"{words.level(track)} since {since}"


def _ways(losses: DirectionLosses | None) -> tuple[str, str]:
    if losses is None:
        return figures.NO_DATA, figures.NO_DATA
    forward, reverse = (
        figures.loss_evidence(way.sent, way.sent - way.lost) for way in (losses.forward, losses.reverse)
    )
    return forward, reverse
