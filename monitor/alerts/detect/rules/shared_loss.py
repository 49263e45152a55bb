"""Little loss on paths that share a site, an uplink or an AS, tested together (`monitor.analysis.alarms.pools`).

The worst pair of hosts and the worst two steps are left out. All pools may alarm a tenth as often as single paths.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, cast

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.rules.counts import LEAST_BASE_BURSTS, LEAST_STEPS_TO_CLEAR, SCHEDULE
from monitor.alerts.detect.rules.finding import LOSSY, AlertRule, Effect, RuleFinding
from monitor.alerts.detect.rules.windows import FiredLevel, clearing, pooled, unjudged
from monitor.alerts.detect.snapshot import RECENT_STEPS, Snapshot
from monitor.analysis import figures as shown
from monitor.analysis.alarms import by_setting, rises, sequential
from monitor.analysis.alarms.pools import shared_counts
from monitor.analysis.alarms.sequential import EventCounts
from monitor.arrays import Floats, Ints
from monitor.mesh.document.alert_rules import RuleSettings, Share
from probes.toml.keys import meaning

# Of all pools together, for each path.
ALARMS_AN_HOUR = 1e-5

# Pairs of hosts of a pool, and those with loss in it.
LEAST_PAIRS = 3

# Of the AS with most paths: all pools share the false alarms, so each further pool slows the others.
MOST_AS_POOLS = 64

# Lossy bursts that remain without the worst pair and the worst steps: two pairs, or two cycles.
LEAST_LEFT = 2

# Log likelihood ratio of the pooled loss against a path's baseline, for it to be affected: 150 times as likely.
LEAST_OWN_EVIDENCE = 5.0

CLEAR_SHARE_OF_RISE = 0.5
COUNTS = ("bursts", "lossy", "sent", "received")


class SharedLossRule(RuleSettings, frozen=True, kw_only=True):
    """Paths of a site, an uplink or an AS lost more packets than before, by `least_rise_ratio` together."""

    schedule = SCHEDULE
    least_rise_ratio: Annotated[Share, meaning("Minimum rise of their loss together above their baseline.")] = 0.001


@dataclass(frozen=True, slots=True)
class PathPool:
    """Paths that share a site, an uplink or an AS, by their rows in the snapshot."""

    name: str
    rows: Ints
    pairs: tuple[tuple[str, ...], ...]


class SharedLoss(AlertRule):
    name = "shared_loss"
    settings = SharedLossRule
    words = "loss"
    began_by = LOSSY
    effect = Effect.LOSS

    def judge(self, snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> list[RuleFinding]:
        pools = list(path_pools(snapshot, settings))
        if not pools:
            return []
        lasting_s = tuple(snapshot.step_s * (step + 1) for step in range(RECENT_STEPS))
        is_new = unjudged(snapshot, self.name, lasting_s)
        least_ratios, every_s = np.full(len(snapshot.paths), np.inf), snapshot.every_s
        least_ratios[by_setting.rows_of(settings, snapshot.rows)] = by_setting.each(
            settings, lambda rule: cast("SharedLossRule", rule).least_rise_ratio
        )
        findings: dict[int, RuleFinding] = {}
        for pool in pools:
            least = float(least_ratios[pool.rows].min())
            pool_every_s = float(every_s[pool.rows].min())
            window = self._window(pool, snapshot, is_new, least, pool_every_s, len(settings) / len(pools))
            if window is not None:
                for finding in self._findings(pool, window, snapshot):
                    other = findings.get(finding.path_id)
                    if other is None or finding.figures["chance"] < other.figures["chance"]:
                        findings[finding.path_id] = finding
        return list(findings.values())

    def over(self, path_id: int, figures: Mapping[str, Any], snapshot: Snapshot) -> str | None:
        path = snapshot.paths[path_id]
        rows = [snapshot.rows[member] for member in figures["pool_paths"] if member in snapshot.rows]
        fired = FiredLevel(
            datetime.fromisoformat(figures["until"]).timestamp(),
            max(float(figures["window_s"]), LEAST_STEPS_TO_CLEAR * snapshot.step_s),
            float(figures["pool_events"]) / float(figures["pool_bursts"]),
            float(figures["bursts"]),
        )
        for members in (rows, [snapshot.rows[path_id]]):
            windows = pooled(snapshot, COUNTS, np.array(members))
            sums = {name: column.sum(axis=0) for name, column in windows.sums.items()}
            lost, sent = sums["sent"] - sums["received"], sums["sent"]
            base, high = float(figures["pool_base_ratio"]), float(figures["pool_ratio"])
            is_low = lost / np.maximum(sent, 1.0) <= base + CLEAR_SHARE_OF_RISE * (high - base)
            both = type(windows)(sums, windows.lasting_s, windows.counted_s)
            place = clearing(both, is_low, sums["lossy"], sums["bursts"], fired, path, snapshot.now)
            if place is not None:
                where = f" of {figures['pool']}" if len(members) > 1 else ""
                counted = _shown(float(lost[place]), float(sent[place]))
                return f"loss{where} {counted} in {shown.duration(windows.counted_s[place])}"
        return None

    def _window(
        self,
        pool: PathPool,
        snapshot: Snapshot,
        is_new: NDArray[np.bool_],
        least_rise: float,
        every_s: float,
        paths_a_pool: float,
    ) -> int | None:
        rows, steps = pool.rows, np.arange(RECENT_STEPS)
        counted = is_new[rows][:, steps]
        events, bursts = snapshot.recent["lossy"][rows] * counted, snapshot.recent["bursts"][rows] * counted
        if (events.sum(axis=1) > 0).sum() < LEAST_PAIRS:
            return None
        newest, base = shared_counts(events, bursts, _base(snapshot, rows), pool.pairs)
        scatter = float(_scatter(snapshot, rows).mean())
        is_used = (newest.events >= LEAST_LEFT)[np.newaxis]
        evidence = sequential.log_evidence(
            newest.events / scatter, newest.bursts / scatter, base.events / scatter, base.bursts / scatter
        )[np.newaxis]
        cycles = np.full(RECENT_STEPS, snapshot.step_s / every_s)[np.newaxis]
        least = 3600.0 / every_s / (ALARMS_AN_HOUR * paths_a_pool)
        hit = sequential.exceeded(evidence, is_used, cycles, least)
        lost = (snapshot.recent["sent"][rows] - snapshot.recent["received"][rows]).sum(axis=0).cumsum()
        sent = np.maximum(snapshot.recent["sent"][rows].sum(axis=0).cumsum(), 1.0)
        hit &= (lost / sent - _base_loss(snapshot, rows) >= least_rise)[np.newaxis]
        return int(np.where(hit, evidence, -np.inf).argmax()) + 1 if hit.any() else None

    def _findings(self, pool: PathPool, steps: int, snapshot: Snapshot) -> Iterator[RuleFinding]:
        events, bursts, sent, received = (
            snapshot.recent[name][pool.rows, :steps].sum(axis=1) for name in ("lossy", "bursts", "sent", "received")
        )
        base, scatter = _base(snapshot, pool.rows), _scatter(snapshot, pool.rows)
        usual = (base.events + 0.5) / (base.bursts + 1.0)
        shared = np.maximum(events.sum() / max(bursts.sum(), 1.0), usual) * (1.0 - 1e-9)
        own = events * np.log(shared / usual) + (bursts - events) * np.log((1.0 - shared) / (1.0 - usual))
        is_lossy = (events > 0) & (own > LEAST_OWN_EVIDENCE)
        ids = list(snapshot.paths)
        members = [ids[row] for row in pool.rows.tolist()]
        if len({pool.pairs[place] for place in np.flatnonzero(is_lossy).tolist()}) < LEAST_PAIRS:
            return
        by = float(scatter.mean())
        chance = sequential.most_chance(
            float(sequential.log_evidence(events.sum() / by, bursts.sum() / by, base.events.sum() / by,
                                          base.bursts.sum() / by))
        )  # fmt: skip
        lasting_s, lost = steps * snapshot.step_s, sent - received
        counted_s = lasting_s - snapshot.recent_lacking_s
        together = f"{len(members)} paths of {pool.name} together {_shown(lost.sum(), sent.sum())}"
        figures = {
            "window_s": lasting_s,
            "counted_s": counted_s,
            "until": snapshot.now.isoformat(),
            "pool": pool.name,
            "pool_paths": members,
            "pool_events": float(events.sum()),
            "pool_bursts": float(bursts.sum()),
            "pool_ratio": float(lost.sum() / max(sent.sum(), 1.0)),
            "pool_base_ratio": _base_loss(snapshot, pool.rows),
            "chance": chance,
        }
        for place in np.flatnonzero(is_lossy).tolist():
            row = int(pool.rows[place])
            base_of = float(snapshot.baseline["sent"][row])
            base_hits = base_of - float(snapshot.baseline["received"][row])
            finding = RuleFinding(
                rule=self.name,
                path_id=ids[row],
                path=snapshot.paths[ids[row]].name,
                sentence=f"{self.words} {_shown(lost[place], sent[place])} in {shown.duration(counted_s)} to "
                f"{snapshot.now:%Y-%m-%d %H:%M:%S} UTC, was {_shown(base_hits, base_of)}; {together}; probability by "
                f"chance {chance:.0e}",
                since=snapshot.now - timedelta(seconds=counted_s),
                figures=figures
                | {
                    "hits": float(lost[place]),
                    "of": float(sent[place]),
                    "ratio": float(lost[place] / max(sent[place], 1.0)),
                    "bursts": float(bursts[place]),
                    "events": float(events[place]),
                    "base_hits": base_hits,
                    "base_of": base_of,
                    "base_ratio": base_hits / max(base_of, 1.0),
                },
            )
            if self.over(finding.path_id, finding.figures, snapshot) is None:
                yield finding


def path_pools(snapshot: Snapshot, settings: Mapping[int, RuleSettings]) -> Iterator[PathPool]:
    """Pools of paths with a baseline by site, uplink and AS, `LEAST_PAIRS` pairs at least; equal sets once."""
    members: dict[str, list[int]] = defaultdict(list)
    has_base = snapshot.baseline["bursts"] >= LEAST_BASE_BURSTS
    judged = [path_id for path_id in settings if has_base[snapshot.rows[path_id]]]
    for path_id in judged:
        path, row = snapshot.paths[path_id], snapshot.rows[path_id]
        sites = dict.fromkeys((path.place.source, path.place.destination))
        for name in (*sites, *(f"uplink {uplink}" for uplink in path.uplinks)):
            members[name].append(row)
    members |= _through_as(snapshot, judged)
    pair_of = [tuple(sorted((path.source, path.destination))) for path in snapshot.paths.values()]
    seen = set[tuple[int, ...]]()
    for name, rows in members.items():
        pairs = tuple(pair_of[row] for row in rows)
        if len(set(pairs)) >= LEAST_PAIRS and tuple(rows) not in seen:
            seen.add(tuple(rows))
            yield PathPool(name, np.array(rows, dtype=np.int64), pairs)


def _through_as(snapshot: Snapshot, judged: Sequence[int]) -> dict[str, list[int]]:
    """Rows of judged paths by AS, except AS with a site common to all."""
    through: dict[str, list[int]] = {}
    for name, path_ids in snapshot.as_paths.items():
        within = [path_id for path_id in judged if path_id in path_ids]
        places = [snapshot.paths[path_id].place for path_id in within]
        if within and not set.intersection(*({place.source, place.destination} for place in places)):
            through[name] = [snapshot.rows[path_id] for path_id in within]
    largest = sorted(through, key=lambda name: (-len(through[name]), name))[:MOST_AS_POOLS]
    return {name: through[name] for name in largest}


def _base(snapshot: Snapshot, rows: Ints) -> EventCounts:
    base = snapshot.baseline
    events, bursts = rises.seasonal(
        base["lossy"][rows], base["bursts"][rows], base["season_lossy"][rows], base["season_bursts"][rows]
    )
    return EventCounts(events, bursts)


def _base_loss(snapshot: Snapshot, rows: Ints) -> float:
    sent, received = (snapshot.baseline[name][rows].sum() for name in ("sent", "received"))
    return float((sent - received) / max(sent, 1.0))


def _scatter(snapshot: Snapshot, rows: Ints) -> Floats:
    base = snapshot.baseline
    names: Sequence[str] = ("lossy_squares", "hours_lossy", "hours_bursts", "hours")
    return rises.dispersion(*(base[name][rows] for name in names))


def _shown(lost: float, sent: float) -> str:
    return f"{shown.loss(round(lost), round(sent))} ({shown.count(round(lost))} of {shown.count(round(sent))} packets)"


SHARED_LOSS = SharedLoss()
