"""Paths without an open incident that are not called normal: their newest bursts were lost, in part or as a whole, or
had a longer RTT, a pending incident has them, their newest throughput tests are low, or newer bursts are overdue.

In: the cells of the grid of now without an incident, the paths of pending incidents and those with a raised RTT or low
tests, and the alert rules. Out: `CheckedPaths`. A loss counts while it lasts: not once the packets after it prove that
it is over (`monitor.analysis.changes.lasting`). A single lost packet is no loss. One that is over is told for ENDED_S.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import cast

from monitor.alerts.detect import suspects
from monitor.alerts.detect.rules.loss import LossRule
from monitor.alerts.detect.suspects import LossEnds
from monitor.analysis import binomial, figures
from monitor.analysis.changes.lasting import LEAST_LOST, EndedLoss, LastingLoss, RecentLosses
from monitor.analysis.changes.present import LostPackets
from monitor.archive.queries.metrics import Metric
from monitor.mesh.document.alert_rules import settings_for
from monitor.mesh.models import KindName, Mesh
from monitor.mesh.queries import measured_paths
from monitor.overview.measures import MEASURES
from monitor.overview.path_figures import FigureState, PathFigures

CLEAN_S = 30.0
"""So long must a path have lost nothing for that to be said of a loss that is not over for certain."""
ENDED_S = 600.0
"""So long is a loss that is over told in its cell, which has its packets."""
POOR_STYLES = ("loss-3", "loss-4", "loss-5")
NAMED = 3
"""So many paths are named."""
ENDED = "ended without an incident"


@dataclass(frozen=True, slots=True)
class CheckedPaths:
    """Names by id of paths with current data and without an open incident that goes on that are not called normal, each
    once; those `in_incidents` have open incidents that only wait to be resolved.
    `silent_since` is the latest last reply of those `without_reply`, `overdue_since` the latest newest burst of those
    `overdue`. Newer bursts of those `set_aside` count nowhere: they were sent during our own throughput tests. Those
    `of_reverse` lose packets on the links of an open incident of the reverse path, those `unclear` have packets that do
    not exclude the loss of an open incident; unless `are_unclear_listed` there are more. `losses` are those of paths
    with a loss, each since it began; `clean_since_s` is None unless it is CLEAN_S ago and enough packets count since.
    `ended` are losses without an incident that were checked until they were over, lately: their paths may be normal.
    `ended_above` are the paths of those that were above their rule for certain, unless an incident may tell them or the
    reverse path may still lose, the one with most lost packets first."""

    without_reply: Mapping[int, str] = field(default_factory=dict)
    with_loss: Mapping[int, str] = field(default_factory=dict)
    above_rules: Mapping[int, str] = field(default_factory=dict)
    of_reverse: Mapping[int, str] = field(default_factory=dict)
    pending: Mapping[int, str] = field(default_factory=dict)
    longer_rtt: Mapping[int, str] = field(default_factory=dict)
    low_tests: Mapping[int, str] = field(default_factory=dict)
    unclear: Mapping[int, str] = field(default_factory=dict)
    overdue: Mapping[int, str] = field(default_factory=dict)
    set_aside: Mapping[int, str] = field(default_factory=dict)
    silent_since: datetime | None = None
    overdue_since: datetime | None = None
    in_incidents: frozenset[int] = frozenset()
    losses: Mapping[int, LastingLoss] = field(default_factory=dict)
    ended: Mapping[int, EndedLoss] = field(default_factory=dict)
    ended_above: Mapping[int, str] = field(default_factory=dict)
    are_unclear_listed: bool = True

    @property
    def _problems(self) -> tuple[Mapping[int, str], ...]:
        by_loss = self.without_reply, self.with_loss, self.above_rules, self.of_reverse
        return *by_loss, self.pending, self.longer_rtt, self.low_tests, self.unclear

    @property
    def suspected(self) -> frozenset[int]:
        """Those that may have a problem."""
        return frozenset[int]().union(*self._problems)

    @property
    def paths(self) -> int:
        """The number of those that may have a problem."""
        return len(self.suspected)

    @property
    def not_normal(self) -> int:
        """The number of those without an open incident."""
        return self.paths - len(self.in_incidents) + len(self.overdue) + len(self.set_aside)

    def of_grid(self, metric: Metric) -> CheckedPaths:
        """Those that a grid of this metric marks: a slow test shows in the grid of throughput alone."""
        return self if metric is Metric.THROUGHPUT else replace(self, low_tests={})

    def may_have_problem(self, path_id: int) -> bool:
        """Whether the path is one of `suspected`."""
        return any(path_id in names for names in self._problems)

    @property
    def named(self) -> list[tuple[int, str]]:
        """The paths that `parts` and `words_of_ends` name, in their order."""
        by_loss = self.without_reply, self.above_rules, self.of_reverse
        by_kind = *by_loss, self.pending, self.longer_rtt, self.low_tests, self.with_loss, self.unclear
        named = [row for names in by_kind for row in list(names.items())[:NAMED]]
        return [*named, *list(self.ended_above.items())[:1]]

    def parts(self, *, with_names: bool = True) -> list[str]:
        """`2 paths without replies since 12:03:10 UTC, being checked (cern → slac, slac → cern)`."""
        unnamed = self.overdue, self.set_aside
        return [
            f"{count_of_paths(len(names))} {text}{_named(names) if with_names and names not in unnamed else ''}"
            for names, text in self._kinds
            if names
        ]

    def words_of(self, path_id: int) -> str:
        """`Loss above the alert threshold, being checked: 12 of 250 packets lost since 10:05:10 UTC`, or how a loss
        `ended_above` ended; empty where the path is in none. The times are exact where no other path is."""
        text = self._text_of(path_id)
        if not text and path_id in self.ended_above:
            return f"Loss {ENDED}: {self.words_of_ended(path_id)}"
        return f"{text[:1].upper()}{text[1:]}"

    def words_in_cell(self, path_id: int, packets: str) -> str:
        """`loss above the alert threshold, being checked: 12 of 250 packets lost since 10:05:10 UTC`, without the times
        that are of several paths. `packets` are the words for those that are counted."""
        alone = replace(self, silent_since=None, overdue_since=None)
        if path_id in self.losses:
            return f"{alone._kind_of(path_id)[0]}: {_lost_text(self.losses[path_id], packets)}"
        return alone._text_of(path_id)

    def words_of_ends(self) -> str:
        """`Loss of slac → ornl ended without an incident: 39 of 1,200 packets lost from 10:05:10 to 10:09:20 UTC, none
        since.`, of several paths `Loss of 12 paths ended without an incident, most on slac → ornl: 39 of …`; empty for
        none."""
        if not self.ended_above:
            return ""
        path_id, name = next(iter(self.ended_above.items()))
        number = len(self.ended_above)
        about = f"{name} {ENDED}" if number == 1 else f"{count_of_paths(number)} {ENDED}, most on {name}"
        return f"Loss of {about}: {self.words_of_ended(path_id)}."

    def words_of_ended(self, path_id: int, packets: str = "packets") -> str:
        """`39 of 1,200 packets lost from 10:05:10 to 10:09:20 UTC, none since`, of a path in `ended`."""
        loss = self.ended[path_id]
        begin = _clock(loss.since_s).removesuffix(" UTC")
        since = figures.count(round(loss.after.lost)) if loss.after.lost else "none"
        return f"{_counts(loss, packets)} from {begin} to {_clock(loss.over_since_s)}, {since} since"

    def _text_of(self, path_id: int) -> str:
        return "".join(self._kind_of(path_id))

    def _kind_of(self, path_id: int) -> tuple[str, str]:
        """The words for the path, and what follows its name."""
        for names, text in self._kinds:
            if path_id in names:
                return text.removeprefix("with "), "".join(names[path_id].partition(": ")[1:])
        return "", ""

    @property
    def _kinds(self) -> tuple[tuple[Mapping[int, str], str], ...]:
        silent = "" if self.silent_since is None else f" since {self.silent_since:%H:%M:%S} UTC"
        overdue = "" if self.overdue_since is None else f" since {self.overdue_since:%H:%M:%S} UTC"
        return (
            (self.without_reply, f"without replies{silent}, being checked"),
            (self.above_rules, "with loss above the alert threshold, being checked"),
            (self.of_reverse, "with the loss of the incident on the reverse path"),
            (self.pending, "being checked"),
            (self.longer_rtt, "with a longer RTT, being checked"),
            (self.low_tests, "with a much slower throughput test, being checked"),
            (self.with_loss, "with loss, not proven above the alert threshold so far"),
            (self.unclear, "with packets that do not exclude the loss of the incident yet"),
            (self.overdue, f"without newer data{overdue}"),
            (self.set_aside, "with newest pings that do not count, sent during throughput tests"),
        )


def checked_paths(
    cells: Sequence[PathFigures],
    pending: Mapping[int, str],
    raised: Mapping[int, str],
    low: Mapping[int, str],
    unclear: Mapping[int, str],
    mesh: Mesh | None,
    ends_s: LossEnds,
    now: datetime,
) -> CheckedPaths:
    """The paths of these cells, and by their names those of pending incidents, those with a raised RTT or low tests and
    those that may have the loss of an incident, that are not called normal. `ends_s` are those of the losses in open
    incidents."""
    silent = [path for path in cells if path.state is FigureState.TOTAL_LOSS]
    lossy = [path for path in cells if path.state is FigureState.VALUE and path.proven_loss_ratio]
    every_end_s = {**_resolved_ends_s(cells), **ends_s}
    losses = _lasting_losses(mesh, lossy, every_end_s, now) if mesh is not None and lossy else _Losses()
    told = losses.every | {path.path_id for path in silent}
    overdue = [path for path in cells if path.stale_at is not None and path.has_figure]
    told_first = told | pending.keys()
    longer = raised.keys() - told_first - {path.path_id for path in overdue}
    # A test needs no ping: its path is named by it, also where newer pings are overdue.
    low = {path_id: name for path_id, name in low.items() if path_id not in told_first | longer}
    overdue = [path for path in overdue if path.path_id not in told_first | low.keys()]
    told_otherwise = told_first | longer | low.keys() | {path.path_id for path in overdue}
    set_aside = [path for path in overdue if path.is_set_aside]
    overdue = [path for path in overdue if not path.is_set_aside]
    times = [path.unanswered_since for path in silent if path.unanswered_since is not None]
    names = {path.path_id: f"{path.source} → {path.destination}" for path in cells}
    ended_above = losses.ended_above - pending.keys() - unclear.keys()
    ended_most_first = sorted(ended_above, key=lambda path_id: losses.ended[path_id].lost, reverse=True)
    return CheckedPaths(
        without_reply={path.path_id: names[path.path_id] for path in silent},
        with_loss=_with_losses(names, losses.poor),
        above_rules=_with_losses(names, losses.above),
        of_reverse={path_id: name for path_id, name in names.items() if path_id in losses.of_reverse},
        losses={**losses.above, **losses.poor, **losses.of_reverse},
        ended=losses.ended,
        ended_above={path_id: names[path_id] for path_id in ended_most_first},
        pending={path_id: name for path_id, name in pending.items() if path_id not in told},
        longer_rtt={path_id: name for path_id, name in raised.items() if path_id in longer},
        low_tests=low,
        unclear={path_id: name for path_id, name in unclear.items() if path_id not in told_otherwise},
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


@dataclass(frozen=True, slots=True)
class _Losses:
    """Lasting losses by path: those proven `above` their rule; `poor` are those that are more, or as much as the grid
    marks, without such a proof. The paths `of_reverse` have an incident of loss on their reverse path. Those `ended`
    were as much, and are over; `ended_above` are the paths of those proven above their rule."""

    above: Mapping[int, LastingLoss] = field(default_factory=dict)
    poor: Mapping[int, LastingLoss] = field(default_factory=dict)
    of_reverse: Mapping[int, LastingLoss] = field(default_factory=dict)
    ended: Mapping[int, EndedLoss] = field(default_factory=dict)
    ended_above: Set[int] = frozenset()

    @property
    def every(self) -> set[int]:
        return {*self.above, *self.poor, *self.of_reverse}


def _resolved_ends_s(cells: Iterable[PathFigures]) -> dict[int, float | None]:
    """When the last incident of loss of each path was over, of those that had one lately."""
    return {path.path_id: path.ended_at.timestamp() for path in cells if path.ended_at is not None}


def _lasting_losses(mesh: Mesh, lossy: Sequence[PathFigures], ends_s: LossEnds, now: datetime) -> _Losses:
    paths = measured_paths(KindName.PING)
    own = [path.path_id for path in lossy if path.path_id in paths]
    rules = settings_for(mesh.alerts, "loss", {path_id: paths[path_id].place for path_id in own})
    ratios = {path_id: cast("LossRule", rule).above_ratio for path_id, rule in rules.items()}
    reverse = suspects.reverse_paths(paths.values())
    recent = suspects.recent_losses_of_paths(own, reverse, now, ends_s)
    lasting = {key: _if_clean(of.lasting, now) for key, of in recent.items() if of.lasting is not None}
    proven = suspects.proven_above(lasting, ratios)
    told = {key: loss for key, loss in lasting.items() if key in proven or _is_told(loss, ratios.get(key))}
    reverse_lasts = {key for key in recent if ends_s.get(reverse.get(key, -1), 0.0) is None}
    of_reverse = reverse_lasts & told.keys()
    without_other = {
        path.path_id for path in lossy if path.incident_id is None and path.ended_at is None and path.stale_at is None
    }
    newest = {
        key: _newest_ended(of, ratios.get(key), now)
        for key, of in recent.items()
        if key in without_other - told.keys() - reverse_lasts
    }
    ended = {key: loss for key, loss in newest.items() if loss is not None}
    return _Losses(
        {key: loss for key, loss in told.items() if key in proven - of_reverse},
        {key: loss for key, loss in told.items() if key not in proven | of_reverse},
        {key: loss for key, loss in told.items() if key in of_reverse},
        ended,
        # Round trips of both paths cross the same links: while one may lose, the loss of the other may go on.
        {key for key in suspects.proven_above(ended, ratios) if reverse.get(key) not in told},
    )


def _is_told(loss: LostPackets, above_ratio: float | None) -> bool:
    """Whether a loss is more than its rule allows, or as much as the grid marks."""
    lowest = float(binomial.lower_bound(loss.lost, loss.sent))
    is_marked = MEASURES[Metric.LOSS].band(lowest).style in POOR_STYLES
    return is_marked or (above_ratio is not None and loss.ratio > above_ratio)


def _newest_ended(losses: RecentLosses, above_ratio: float | None, now: datetime) -> EndedLoss | None:
    """The newest loss that is over, if that was lately and the loss had been told."""
    since_s = now.timestamp() - ENDED_S
    ended = (loss for loss in losses.ended if loss.lost >= LEAST_LOST and _is_told(loss, above_ratio))
    return next((loss for loss in ended if loss.over_since_s > since_s), None)


def _if_clean(loss: LastingLoss, now: datetime) -> LastingLoss:
    """Without the end if that was just now, or if so few packets count since then that none lost tells little."""
    is_clean = loss.clean_since_s is not None and now.timestamp() - loss.clean_since_s >= CLEAN_S
    return loss if is_clean and loss.is_half_over else replace(loss, clean_since_s=None)


def _with_losses(names: Mapping[int, str], losses: Mapping[int, LastingLoss]) -> dict[int, str]:
    return {path_id: f"{name}: {_lost_text(losses[path_id])}" for path_id, name in names.items() if path_id in losses}


def _lost_text(loss: LastingLoss, packets: str = "packets") -> str:
    """`12 of 250 packets lost since 10:05:10 UTC, none since 10:09:20 UTC`."""
    text = f"{_counts(loss, packets)} since {_clock(loss.since_s)}"
    return text if loss.clean_since_s is None else f"{text}, none since {_clock(loss.clean_since_s)}"


def _counts(loss: LostPackets, packets: str) -> str:
    return f"{figures.count(round(loss.lost))} of {figures.count(round(loss.sent))} {packets} lost"


def _clock(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%H:%M:%S} UTC"
