"""Annotations of a site, newest first, with verdicts counted over its paths; the intervals hold for all paths
together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from monitor.alerts.incidents.annotations import annotations_of_site
from monitor.alerts.models import Annotation
from monitor.analysis.changes.before_after import DAYS_AFTER, DAYS_BEFORE, Comparison, HourCounts, Proof, compare
from monitor.archive.queries.paths import PathHour, hours_of_paths
from monitor.archive.queries.throughput.series import rates_of_paths
from monitor.mesh.models import Path, Site
from monitor.overview.annotations.compared import MARGIN

# Annotations with a verdict, the newest: each reads two weeks of hours of all its paths.
MOST_COMPARED = 3
PERIOD = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class FigureVerdict:
    """Number of paths with a proven higher or lower figure, no proven change, or unknown."""

    figure: str
    higher: int
    lower: int
    unproven: int
    unknown: int

    @property
    def words(self) -> str:
        paths = self.higher + self.lower + self.unproven + self.unknown
        if self.unknown == paths:
            return f"{self.figure}: cannot tell"
        proven = [f"{word} on {count}" for word, count in (("higher", self.higher), ("lower", self.lower)) if count]
        verdict = f"{' and '.join(proven)} of {_paths(paths)}, proven" if proven else "no proven change"
        rest = f"no proven change on {self.unproven}" if proven and self.unproven else ""
        unknown = f"cannot tell on {self.unknown}" if self.unknown else ""
        return f"{self.figure}: {'; '.join(part for part in (verdict, rest, unknown) if part)}"


@dataclass(frozen=True, slots=True)
class SiteAnnotation:
    annotation: Annotation
    verdicts: tuple[FigureVerdict, ...]  # none beyond the newest MOST_COMPARED


def site_annotations(site: Site, paths: Sequence[Path], packet_bytes: int, now: datetime) -> tuple[SiteAnnotation, ...]:
    """The annotations of the last `PERIOD` that concern a site; `paths` are from and to it."""
    annotations = annotations_of_site(site, now - PERIOD, now + MARGIN)
    return tuple(
        SiteAnnotation(noted, _verdicts(noted, paths, packet_bytes, now) if place < MOST_COMPARED else ())
        for place, noted in enumerate(annotations)
    )


def _verdicts(noted: Annotation, paths: Sequence[Path], packet_bytes: int, now: datetime) -> tuple[FigureVerdict, ...]:
    path_ids = [path.pk for path in paths] if noted.path_id is None else [noted.path_id]
    since = noted.at - timedelta(days=DAYS_BEFORE) - MARGIN
    until = min(noted.at + timedelta(days=DAYS_AFTER) + MARGIN, now)
    if until <= since or not path_ids:
        return ()
    hours, tests = defaultdict(list), defaultdict(list)
    for hour in hours_of_paths(path_ids, packet_bytes, since, until):
        hours[hour.path_id].append(hour)
    for test in rates_of_paths(path_ids, since, until):
        tests[test.path_id].append((test.at.timestamp(), test.throughput_bps))
    at_s, now_s = noted.at.timestamp(), now.timestamp()
    compared = [
        compare(_counts(hours[path_id]), tests[path_id], at_s, now_s, of_paths=len(path_ids)) for path_id in path_ids
    ]
    return tuple(_verdict(of_figure) for of_figure in zip(*compared, strict=True))


def _counts(hours: Sequence[PathHour]) -> HourCounts:
    return HourCounts(
        np.array([hour.at.timestamp() for hour in hours]),
        np.array([np.nan if hour.rtt_median_ms is None else hour.rtt_median_ms for hour in hours], dtype=np.float64),
        np.array([float(hour.sent) for hour in hours]),
        np.array([float(hour.sent - hour.received) for hour in hours]),
    )


def _verdict(compared: Sequence[Comparison]) -> FigureVerdict:
    rises = [
        comparison.after > comparison.before
        for comparison in compared
        if comparison.proof is Proof.PROVEN and comparison.before is not None and comparison.after is not None
    ]
    proofs = [comparison.proof for comparison in compared]
    return FigureVerdict(
        figure=compared[0].figure,
        higher=sum(rises),
        lower=len(rises) - sum(rises),
        unproven=proofs.count(Proof.NOT_PROVEN),
        unknown=proofs.count(Proof.CANNOT_TELL),
    )


def _paths(count: int) -> str:
    return "1 path" if count == 1 else f"{count} paths"
