"""Paths without an open incident that are not called normal: their newest bursts were lost, in part or as a whole, or
had a longer RTT, a pending incident has them, their newest throughput tests are low, or newer bursts are overdue.

In: the cells of the grid of now without an incident, the paths of pending incidents and those with a raised RTT or low
tests, and the alert rules. Out: `CheckedPaths`. A loss counts while it lasts: not once the packets after it prove that
it is over (`monitor.analysis.changes.lasting`). A single lost packet is no loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import cast

from monitor.alerts.detect.rules.loss import LossRule
from monitor.analysis import binomial, figures
from monitor.analysis.changes.lasting import lasting_loss
from monitor.analysis.changes.present import LostPackets
from monitor.archive.queries.for_alerts import newest_bursts
from monitor.archive.queries.metrics import Metric
from monitor.mesh.document.alert_rules import settings_for
from monitor.mesh.models import KindName, Mesh
from monitor.mesh.queries import measured_paths
from monitor.overview.measures import MEASURES
from monitor.overview.path_figures import FigureState, PathFigures

PROOF_TAKES = timedelta(minutes=30)
"""So long may the rule of loss count packets."""
POOR_STYLES = ("loss-3", "loss-4", "loss-5")
NAMED = 3
"""So many paths are named."""


@dataclass(frozen=True, slots=True)
class CheckedPaths:
    """Names by id of paths with current data and without an open incident that are not called normal, each once.
    `silent_since` is the latest last reply of those `without_reply`, `overdue_since` the latest newest burst of those
    `overdue`. Newer bursts of those `set_aside` count nowhere: they were sent during our own throughput tests."""

    without_reply: Mapping[int, str] = field(default_factory=dict)
    with_loss: Mapping[int, str] = field(default_factory=dict)
    above_rules: Mapping[int, str] = field(default_factory=dict)
    pending: Mapping[int, str] = field(default_factory=dict)
    longer_rtt: Mapping[int, str] = field(default_factory=dict)
    low_tests: Mapping[int, str] = field(default_factory=dict)
    overdue: Mapping[int, str] = field(default_factory=dict)
    set_aside: Mapping[int, str] = field(default_factory=dict)
    silent_since: datetime | None = None
    overdue_since: datetime | None = None

    @property
    def paths(self) -> int:
        """The number of those that may have a problem."""
        by_loss = self.without_reply, self.with_loss, self.above_rules
        return sum(map(len, (*by_loss, self.pending, self.longer_rtt, self.low_tests)))

    @property
    def not_normal(self) -> int:
        return self.paths + len(self.overdue) + len(self.set_aside)

    @property
    def named(self) -> list[tuple[int, str]]:
        """The paths that `parts` names, in its order."""
        by_kind = self.without_reply, self.above_rules, self.pending, self.longer_rtt, self.low_tests, self.with_loss
        return [row for names in by_kind for row in list(names.items())[:NAMED]]

    def parts(self, *, with_names: bool = True) -> list[str]:
        """`2 paths without replies since 12:03:10 UTC, being checked (cern → slac, slac → cern)`."""
        silent = "" if self.silent_since is None else f" since {self.silent_since:%H:%M:%S} UTC"
        overdue = "" if self.overdue_since is None else f" since {self.overdue_since:%H:%M:%S} UTC"
        every = (
            (self.without_reply, f"without replies{silent}, being checked"),
            (self.above_rules, "with loss above the alert threshold, being checked"),
            (self.pending, "being checked"),
            (self.longer_rtt, "with a longer RTT, being checked"),
            (self.low_tests, "with a much slower throughput test, being checked"),
            (self.with_loss, "with loss, not proven above the alert threshold so far"),
            (self.overdue, f"without newer data{overdue}"),
            (self.set_aside, "with newer pings during throughput tests only, excluded"),
        )
        unnamed = self.overdue, self.set_aside
        return [
            f"{count_of_paths(len(names))} {text}{_named(names) if with_names and names not in unnamed else ''}"
            for names, text in every
            if names
        ]


def checked_paths(
    cells: Sequence[PathFigures],
    pending: Mapping[int, str],
    raised: Mapping[int, str],
    low: Mapping[int, str],
    mesh: Mesh | None,
    now: datetime,
) -> CheckedPaths:
    """The paths of these cells, and by their names those of pending incidents and those with a raised RTT or low tests,
    that are not called normal."""
    silent = [path for path in cells if path.state is FigureState.TOTAL_LOSS]
    lossy = [path for path in cells if path.state is FigureState.VALUE and path.proven_loss_ratio]
    above, poor = _by_rules(mesh, lossy, now)
    told = above | poor | {path.path_id for path in silent}
    overdue = [path for path in cells if path.stale_at is not None and path.has_figure]
    overdue = [path for path in overdue if path.path_id not in told | pending.keys()]
    others = told | pending.keys() | {path.path_id for path in overdue}
    set_aside = [path for path in overdue if path.is_set_aside]
    overdue = [path for path in overdue if not path.is_set_aside]
    longer = raised.keys() - others
    times = [path.unanswered_since for path in silent if path.unanswered_since is not None]
    names = {path.path_id: f"{path.source} → {path.destination}" for path in cells}
    return CheckedPaths(
        without_reply={path.path_id: names[path.path_id] for path in silent},
        with_loss={path_id: name for path_id, name in names.items() if path_id in poor},
        above_rules={path_id: name for path_id, name in names.items() if path_id in above},
        pending={path_id: name for path_id, name in pending.items() if path_id not in told},
        longer_rtt={path_id: name for path_id, name in raised.items() if path_id in longer},
        low_tests={path_id: name for path_id, name in low.items() if path_id not in others | longer},
        overdue={path.path_id: names[path.path_id] for path in overdue},
        set_aside={path.path_id: names[path.path_id] for path in set_aside},
        silent_since=max(times, default=None) if len(times) == len(silent) else None,
        overdue_since=max((path.stale_at for path in overdue if path.stale_at is not None), default=None),
    )


def count_of_paths(number: int) -> str:
    """`1 path`, `1,200 paths`."""
    return f"{figures.count(number)} path{'s' if number != 1 else ''}"


def _named(names: Mapping[int, str]) -> str:
    more = f" and {figures.count(len(names) - NAMED)} more" if len(names) > NAMED else ""
    return f" ({', '.join(list(names.values())[:NAMED])}{more})"


def _by_rules(mesh: Mesh | None, lossy: Sequence[PathFigures], now: datetime) -> tuple[set[int], set[int]]:
    """The paths whose loss is proven above their rule, and those that lose more, or as much as the grid marks, without
    such a proof."""
    if mesh is None or not lossy:
        return set(), set()
    paths = measured_paths(KindName.PING)
    places = {path.path_id: paths[path.path_id].place for path in lossy if path.path_id in paths}
    ratios = {
        path_id: cast("LossRule", rule).above_ratio
        for path_id, rule in settings_for(mesh.alerts, "loss", places).items()
    }
    losses = _lasting_losses([path.path_id for path in lossy], now)
    lowest = {key: float(binomial.lower_bound(loss.lost, loss.sent)) for key, loss in losses.items()}
    marked = {key for key, ratio in lowest.items() if MEASURES[Metric.LOSS].band(ratio).style in POOR_STYLES}
    over = {key for key, loss in losses.items() if key in ratios and loss.ratio > ratios[key]}
    above = {key for key in over if lowest[key] > ratios[key]}
    return above, (over | marked) - above


def _lasting_losses(path_ids: Sequence[int], now: datetime) -> dict[int, LostPackets]:
    """The loss of each of these paths that lose packets now, since it began."""
    since_s = (now - PROOF_TAKES).timestamp()
    columns = newest_bursts(path_ids, [since_s] * len(path_ids), now)
    losses = {}
    for path_id in path_ids:
        is_own = columns["path_id"] == path_id
        loss = lasting_loss(*(columns[name][is_own] for name in ("at_s", "sent", "received")))
        if loss is not None:
            losses[path_id] = loss
    return losses
