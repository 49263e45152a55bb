"""Format loss by direction in a report: forward and reverse side by side."""

from __future__ import annotations

from monitor.analysis.directions import LostDirection, OneWayLosses
from monitor.reports.contents.report import PathReport, Report
from monitor.reports.contents.sentences import paths as number_of_paths
from monitor.reports.numbers import Numbers

MOST_LISTED = 10
_IN_WORDS = {
    LostDirection.FORWARD: "forward only",
    LostDirection.REVERSE: "reverse only",
    LostDirection.BOTH: "both",
}


def direction_lines(report: Report, numbers: Numbers) -> tuple[tuple[str, ...], ...]:
    """Paths that lose packets by STAMP: those in a single direction first, then by loss."""
    lossy = [path for path in report.paths if path.directions is not None and _largest_ratio(path) > 0.0]
    lossy.sort(key=lambda path: (path.lost_direction not in _ONE_WAY, -_largest_ratio(path), path.name))
    return tuple(_line(path, numbers) for path in lossy[:MOST_LISTED])


def directions_note(report: Report, numbers: Numbers) -> str:
    """State how many paths STAMP measures, and how many lose in a single direction; empty without counters."""
    counted = [path for path in report.paths if path.directions is not None]
    if not counted:
        return ""
    one_way = sum(path.lost_direction in _ONE_WAY for path in counted)
    lossy = sum(_largest_ratio(path) > 0.0 for path in counted)
    more = f"; the {MOST_LISTED} with the most loss are listed" if lossy > MOST_LISTED else ""
    return (
        f"{number_of_paths(len(counted), numbers)} with both directions measured by STAMP; {numbers.count(lossy)} with "
        f"loss, {numbers.count(one_way)} in one direction only{more}. A direction is named where the counts prove it, "
        "not for packets of a path that was down."
    )


_ONE_WAY = (LostDirection.FORWARD, LostDirection.REVERSE)


def _line(path: PathReport, numbers: Numbers) -> tuple[str, ...]:
    assert path.directions is not None
    ways = (path.directions.forward, path.directions.reverse)
    return path.name, *(_loss(way, numbers) for way in ways), _IN_WORDS.get(path.lost_direction, "cannot tell")


def _loss(way: OneWayLosses, numbers: Numbers) -> str:
    return f"{numbers.loss(way.lost, way.sent)} of {numbers.count(way.sent)} packets"


def _largest_ratio(path: PathReport) -> float:
    assert path.directions is not None
    return max(path.directions.forward.ratio or 0.0, path.directions.reverse.ratio or 0.0)
