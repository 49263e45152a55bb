"""Log Bayes factors that paths without an alarm share a loss or RTT rise (`monitor.analysis.alarms.suspicion`)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.rtt_windows import trip_windows
from monitor.alerts.detect.rules.by_direction import DIRECTION
from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import RuleFinding, Trouble
from monitor.alerts.detect.rules.windows import pooled
from monitor.alerts.detect.snapshot import Key, Snapshot
from monitor.alerts.detect.sources import STORED, Source
from monitor.alerts.detect.troubles import LOSS_EFFECTS
from monitor.analysis.alarms import suspicion
from monitor.analysis.alarms.grouping import LEAST_BAD
from monitor.analysis.alarms.suspicion import LossFactors, PacketCounts, RttSamples
from monitor.archive.queries.for_alerts import DIRECTIONS, newest_bursts
from monitor.arrays import Bools, Floats, Ints
from monitor.mesh.queries import MeasuredPath

NOT_SETTLED: Mapping[int, float] = MappingProxyType({})

# A path's packets exclude the loss of others if they are ten times as likely at its own baseline.
EXCLUDED_NATS = -math.log(10.0)
# The loss rule may count packets for this long.
PROOF_TAKES = timedelta(minutes=30)
# Newest RTTs of a path that are compared.
SAMPLES = 60
# A path without an incident's loss in its packets of this time is normal, whatever it lost before.
NEWEST_PACKETS = timedelta(minutes=10)
# Bad paths, and as many others, that packets since an onset are read for.
MOST_READ = 500


class PathSuspicion:
    """`Evidence` of a snapshot; none for a path without packets or RTTs since the onset.

    `settled_s` and `onsets_s` (seconds since the epoch) exclude earlier packets.
    """

    def __init__(
        self,
        findings: Sequence[RuleFinding],
        lasting: Collection[Key],
        snapshot: Snapshot,
        settled_s: Mapping[int, float] = NOT_SETTLED,
        onsets_s: Mapping[int, float] = NOT_SETTLED,
    ) -> None:
        rules: dict[int, set[str]] = defaultdict(set)
        self._steps: dict[int, list[RuleFinding]] = defaultdict(list)
        for finding in findings:
            rules[finding.path_id].add(finding.rule)
            if _is_step(finding, snapshot):
                self._steps[finding.path_id].append(finding)
        for path_id, rule in lasting:
            rules[path_id].add(rule)
        self._lossy = {
            path_id for path_id, names in rules.items() if any(rule_of(name).effect in LOSS_EFFECTS for name in names)
        }
        self._snapshot, self._onsets_s = snapshot, onsets_s
        is_one_way = any(DIRECTION in finding.figures for finding in findings)
        self._counts = _packet_counts(_with_stamp_packets(snapshot) if is_one_way else snapshot, settled_s)
        self._loss_factors = LossFactors(self._counts)
        self._samples: dict[str, RttSamples] = {}

    def log_factors(self, bad: Collection[int], others: Sequence[int]) -> Floats:
        """Log Bayes factors of `others`; minus infinity if `bad` paths neither lose packets nor have a higher RTT."""
        rows = self._rows(others)
        by_effect = []
        lossy = sorted(self._lossy.intersection(bad))
        if lossy:
            factors = suspicion.loss_factors(self._counts, self._rows(lossy), rows)
            by_effect.append(np.where(self._ends_before(lossy, rows), np.nan, factors))
        steps: dict[str, list[RuleFinding]] = defaultdict(list)
        for path_id in bad:
            for finding in self._steps.get(path_id, ()):
                steps[finding.figures["figure"]].append(finding)
        for figure, of_figure in steps.items():
            rise_ms = float(
                np.median([finding.figures["after_ms"] - finding.figures["before_ms"] for finding in of_figure])
            )
            onset_s = float(np.median([_since_s(finding.figures) for finding in of_figure]))
            by_effect.append(suspicion.rtt_factors(self._samples_of(figure), onset_s, rise_ms, rows))
        if not by_effect:
            return np.full(len(rows), -np.inf)
        return np.nan_to_num(np.fmax.reduce(by_effect), nan=0.0)

    def may_lose(self, bad: Collection[int], *, is_outage: bool) -> Bools:
        """Mask paths with packets that do not exclude the `bad` paths' loss."""
        lossy = self._rows(path_id for path_id in sorted(bad) if path_id in self._snapshot.rows)
        if not len(lossy):
            return np.zeros(len(self._snapshot.paths), dtype=np.bool_)
        is_open: Bools = self._loss_factors.of_all(lossy) > (0.0 if is_outage else EXCLUDED_NATS)
        return is_open

    def _ends_before(self, lossy: Collection[int], rows: Ints) -> NDArray[np.bool_]:
        onset_s = min((self._onsets_s[path_id] for path_id in lossy if path_id in self._onsets_s), default=-np.inf)
        ends_before: NDArray[np.bool_] = self._newest_s[rows] < onset_s
        return ends_before

    @cached_property
    def _newest_s(self) -> Floats:
        """Begin of each path's newest burst, cached for thousands of candidate causes."""
        return self._snapshot.newest("counted_s")

    def _rows(self, path_ids: Iterable[int]) -> Ints:
        return np.array([self._snapshot.rows[path_id] for path_id in path_ids], dtype=np.int64)

    def _samples_of(self, figure: str) -> RttSamples:
        if figure not in self._samples:
            self._samples[figure] = _rtt_samples(self._snapshot, figure)
        return self._samples[figure]


def clear_since(
    onset: datetime, lossy: Sequence[int], others: Sequence[int], snapshot: Snapshot, *, is_outage: bool
) -> set[int]:
    """Select `others` with packets since the onset that exclude the loss of `lossy`: a query, MOST_READ bad paths at
    most."""
    if not lossy or not others:
        return set()
    every, now_s = [*lossy[:MOST_READ], *others], snapshot.now.timestamp()
    first_s = max(onset.timestamp(), now_s - PROOF_TAKES.total_seconds())
    bursts = newest_bursts(every, [first_s] * len(every), snapshot.now)
    own, beside = np.split(np.arange(len(every)), [len(every) - len(others)])
    at_most = 0.0 if is_outage else EXCLUDED_NATS
    clear = np.zeros(len(others), dtype=np.bool_)
    # The snapshot's windows begin at fixed times and may hold an earlier trouble.
    for since_s in {first_s, max(first_s, now_s - NEWEST_PACKETS.total_seconds())}:
        clear |= suspicion.loss_factors(_counts_since(since_s, bursts, every, snapshot), own, beside) <= at_most
    return {path_id for path_id, is_clear in zip(others, clear.tolist(), strict=True) if is_clear}


def reverse_paths(paths: Iterable[MeasuredPath]) -> dict[int, int]:
    by_hosts = {(path.source, path.destination): path.path_id for path in paths}
    return {path_id: by_hosts[end, begin] for (begin, end), path_id in by_hosts.items() if (end, begin) in by_hosts}


def _since_s(figures: Mapping[str, str]) -> float:
    return datetime.fromisoformat(figures["since"]).timestamp()


def _packet_counts(snapshot: Snapshot, settled_s: Mapping[int, float]) -> PacketCounts:
    windows = pooled(snapshot, ("bursts", "lossy", "sent", "received"))
    sums = windows.sums
    if settled_s:
        begins_s = snapshot.now.timestamp() - np.asarray(windows.lasting_s)
        since_s = np.array([settled_s.get(path_id, -np.inf) for path_id in snapshot.paths])
        sums = {name: np.where(begins_s >= since_s[:, np.newaxis], column, 0.0) for name, column in sums.items()}
    return PacketCounts(
        sums["bursts"], sums["lossy"], sums["sent"], sums["sent"] - sums["received"], _base_ratio(snapshot)
    )


def _counts_since(
    since_s: float, bursts: Mapping[str, Floats], path_ids: Sequence[int], snapshot: Snapshot
) -> PacketCounts:
    places = {path_id: place for place, path_id in enumerate(path_ids)}
    is_since = bursts["at_s"] >= since_s
    place = np.array([places[path_id] for path_id in bursts["path_id"][is_since].tolist()], dtype=np.int64)
    sent, received = bursts["sent"][is_since], bursts["received"][is_since]

    def summed(figures: Floats) -> Floats:
        sums: Floats = np.bincount(place, figures, len(path_ids)).astype(np.float64)
        return sums[:, np.newaxis]

    rows = [snapshot.rows[path_id] for path_id in path_ids]
    return PacketCounts(
        summed(np.ones(len(sent))),
        summed((received < sent).astype(np.float64)),
        summed(sent),
        summed(sent - received),
        _base_ratio(snapshot)[rows],
    )


def _base_ratio(snapshot: Snapshot) -> Floats:
    sent, received = snapshot.baseline["sent"], snapshot.baseline["received"]
    return np.where(sent > 0, (sent - received) / np.maximum(sent, 1.0), np.nan)


def _with_stamp_packets(snapshot: Snapshot) -> Snapshot:
    """Replace round-trip counts by STAMP counts of both directions, where paths have them."""
    if not snapshot.directions:
        return snapshot
    forward, reverse = (snapshot.of_direction(direction) for direction in DIRECTIONS)
    if forward.step_s != snapshot.step_s:
        return snapshot  # windows of another length
    has_stamp = np.isin(list(snapshot.paths), list(forward.paths))
    places = [forward.rows[path_id] for path_id in snapshot.paths if path_id in forward.rows]

    def merged(of: Mapping[str, Floats], ahead: Mapping[str, Floats], back: Mapping[str, Floats]) -> dict[str, Floats]:
        counts = {
            "bursts": ahead["bursts"],
            "lossy": np.minimum(ahead["lossy"] + back["lossy"], ahead["bursts"]),
            "sent": ahead["sent"],
            "received": back["received"],
        }
        columns = {**of, **{name: of[name].copy() for name in counts}}
        for name, column in counts.items():
            columns[name][has_stamp] = column[places]
        return columns

    return replace(
        snapshot,
        recent=merged(snapshot.recent, forward.recent, reverse.recent),
        hourly=merged(snapshot.hourly, forward.hourly, reverse.hourly),
        baseline=merged(snapshot.baseline, forward.baseline, reverse.baseline),
    )


def _rtt_samples(snapshot: Snapshot, figure: str) -> RttSamples:
    at_s = np.full((len(snapshot.paths), SAMPLES), np.nan)
    rtts_ms = np.full_like(at_s, np.nan)
    bursts = snapshot.trips.bursts
    for path_id, (first, end) in snapshot.trips.spans.items():
        row, first = snapshot.rows.get(path_id), max(first, end - SAMPLES)
        if row is not None:
            at_s[row, : end - first] = bursts.at_s[first:end]
            rtts_ms[row, : end - first] = bursts.values_ms[figure][first:end]
    return RttSamples(at_s, rtts_ms)


def with_trips(
    snapshot: Snapshot, findings: Sequence[RuleFinding], lasting: Collection[Key], source: Source = STORED
) -> Snapshot:
    """Load recent RTTs of all paths where the cause of a sudden RTT change depends on them."""
    bad = {path_id for path_id, rule in lasting if rule_of(rule).trouble is Trouble.ROUND_TRIPS}
    bad |= {finding.path_id for finding in findings if rule_of(finding.rule).trouble is Trouble.ROUND_TRIPS}
    has_new = any(
        (finding.path_id, finding.rule) not in lasting and rule_of(finding.rule).trouble is Trouble.ROUND_TRIPS
        for finding in findings
    )
    if not has_new or len(bad) < LEAST_BAD or not any(_is_step(finding, snapshot) for finding in findings):
        return snapshot
    is_measured = snapshot.recent["bursts"].sum(axis=1) > 0
    missing = {
        path_id: path
        for (path_id, path), measured in zip(snapshot.paths.items(), is_measured.tolist(), strict=True)
        if measured and path_id not in snapshot.trips.spans
    }
    if not missing:
        return snapshot
    more = trip_windows(snapshot.now, missing, {}, {}, set(missing), source)
    return replace(snapshot, trips=snapshot.trips.with_bursts_of(more))


def _is_step(finding: RuleFinding, snapshot: Snapshot) -> bool:
    return finding.figures.get("figure") in snapshot.trips.bursts.values_ms and "since" in finding.figures
