"""Loss that paths share, against the same loss on single paths: `shared_loss` and `loss_regression`.

In: a site with paths to nine others, each a pair of hosts, and four sites in a full mesh that lose nothing more. Out:
how long either rule takes from the rise, how the incident is named, and false alarms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.backtest.recorded import RecordedSource
from monitor.alerts.backtest.replay import Alarm, Replay, moments
from monitor.mesh.queries import MeasuredPath
from tests.planted import paths
from tests.planted.paths import BEGAN, CYCLE_S
from tests.planted.simulated import BEFORE_CYCLES, Sizes
from tests.reproduce.table import Table

Floats = NDArray[np.float64]

SITE = "cern"
FAR = tuple(f"site{number}" for number in range(9))
ROUNDS = 12
CYCLES = 150
QUIET_SITES = 12
QUIET_AS = 20
QUIET_SITES_WITH_AS = 33
ROUNDS_WITH_AS = 1
"""Ten hours of 1,056 paths each: with both losses more than 20,000 path-hours."""
AS_SHARE = 0.3
"""Share of the paths through each of them."""
POOLS = {"uplink": "uplink campus/geant", "AS": "AS 64500 Transit"}
OTHER_AS = "AS 64501 Other"
RULES = ("shared_loss", "loss_regression", "loss")


def table(sizes: Sizes) -> Table:
    """Minutes until half of the rounds (paths) have an incident."""
    results = Table(("nine paths of", "loss", "one path", "nine paths", "share", "named right", "paths in it"))
    for before, after in ((0.0, 0.003), (0.001, 0.01), (0.0, 0.01)):
        alone, together, named, listed = [], [], 0, []
        for seed in range(ROUNDS):
            alarms, replay = planted(before, after, seed)
            together.append(min(_minutes(replay, ("shared_loss",)).values(), default=np.inf))
            single = _minutes(replay, ("loss_regression",))
            alone += [single.get(path_id, np.inf) for path_id in range(1, len(FAR) + 1)]
            lasting = [alarm for alarm in alarms if alarm.ended_at is None]
            named += [alarm.cause for alarm in lasting] == [f"{SITE} outbound"]
            listed.append(max((len({path for path, _ in alarm.ever}) for alarm in lasting), default=0))
        one, nine = float(np.median(alone)), float(np.median(together))
        cells = (f"{one:.0f} min", f"{nine:.0f} min", f"{nine / one:.2f}", f"{named} of {ROUNDS}")
        listed_text = f"{np.median(listed):.0f} of {len(FAR)}"
        results.rows.append(("site", f"{before:.1%} to {after:.1%}", *cells, listed_text))
        if named < ROUNDS - 1:
            results.failures.append(f"{before:.1%} to {after:.1%}: named right in {named} of {ROUNDS}")
    _add_elsewhere(results)
    return results


def _add_elsewhere(results: Table) -> None:
    """Add nine paths that have no site in common, but an uplink or an AS; named by the findings' pool."""
    for shared in ("uplink", "AS"):
        alone, together, named = [], [], 0
        for seed in range(ROUNDS):
            replay = planted_elsewhere(shared, 0.003, seed)
            first = _minutes(replay, ("shared_loss",))
            together.append(min(first.values(), default=np.inf))
            single = _minutes(replay, ("loss_regression",))
            alone += [single.get(path_id, np.inf) for path_id in range(1, len(FAR) + 1)]
            pools = {finding.figures["pool"] for _, finding in replay.findings if finding.rule == "shared_loss"}
            named += pools == {POOLS[shared]}
        one, nine = float(np.median(alone)), float(np.median(together))
        cells = (f"{one:.0f} min", f"{nine:.0f} min", f"{nine / one:.2f}", f"{named} of {ROUNDS}")
        results.rows.append((shared, "0.0% to 0.3%", *cells, "–"))
        if named < ROUNDS - 1:
            results.failures.append(f"{shared}: named right in {named} of {ROUNDS}")


@dataclass(frozen=True)
class SourceWithAs:
    """A recorded source whose paths go through AS."""

    recorded: RecordedSource
    through: Mapping[str, frozenset[int]]

    def as_paths(self, now: datetime) -> Mapping[str, frozenset[int]]:
        return self.through

    def __getattr__(self, name: str) -> Any:
        return getattr(self.recorded, name)


def planted_elsewhere(shared: str, after: float, seed: int, cycles: int = CYCLES) -> Replay:
    """The rules of loss on nine paths between different sites, across an uplink or through an AS, that begin to lose
    packets, beside a full mesh of four sites that do not; half of its paths go through another AS."""
    others = [(a, b) for a in "wxyz" for b in "wxyz" if a != b]
    pinged = paths.paths([*((f"a{far}", far) for far in FAR), *others])
    hit = frozenset(range(1, len(FAR) + 1))
    through = {OTHER_AS: frozenset(path_id for path_id in pinged if path_id not in hit and path_id % 2)}
    if shared == "AS":
        through[POOLS["AS"]] = hit
    else:
        uplink = frozenset({POOLS["uplink"].removeprefix("uplink ")})
        pinged |= {path_id: replace(pinged[path_id], uplinks=uplink) for path_id in hit}
    ratio = np.zeros((len(pinged), BEFORE_CYCLES + cycles))
    ratio[: len(FAR), BEFORE_CYCLES:] = after
    random = np.random.default_rng(seed)
    recorded = RecordedSource(paths.bursts(*ratio.shape, ratio, random), past=paths.past(len(pinged), 0.0, random))
    return _replay(pinged, SourceWithAs(recorded, through), ratio.shape[1])


def star() -> dict[int, MeasuredPath]:
    """The paths of SITE, and of four sites that do not measure it."""
    others = [(a, b) for a in "wxyz" for b in "wxyz" if a != b]
    return paths.paths([*((SITE, far) for far in FAR), *others])


def planted(
    before: float, after: float, seed: int, is_hit: range = range(len(FAR)), cycles: int = CYCLES
) -> tuple[list[Alarm], Replay]:
    """The incidents of a rise on the paths of SITE in `is_hit`, by their number."""
    ratio = np.full((len(FAR), BEFORE_CYCLES + cycles), before)
    ratio[list(is_hit), BEFORE_CYCLES:] = after
    replay = replayed(ratio, before, np.random.default_rng(seed))
    return [alarm for alarm in replay.alarms if alarm.opened_at is not None], replay


def replayed(ratio: Floats, before: float, random: np.random.Generator) -> Replay:
    """The rules of loss on the paths of SITE with this loss, of shape (paths, cycles), after the first cycles; all
    other paths stay as before."""
    pinged, cycles = star(), ratio.shape[1]
    others = np.full((len(pinged) - len(ratio), cycles), before)
    drawn = paths.bursts(len(pinged), cycles, np.concatenate([ratio, others]), random)
    source = RecordedSource(drawn, past=paths.past(len(pinged), before, random))
    return _replay(pinged, source, cycles)


def _replay(pinged: dict[int, MeasuredPath], source: Any, cycles: int) -> Replay:
    replay = Replay(paths.scope(pinged), source, RULES)
    began = BEGAN + timedelta(seconds=(BEFORE_CYCLES - 0.5) * CYCLE_S)
    for now in moments(began, BEGAN + timedelta(seconds=(cycles - 0.5) * CYCLE_S), CYCLE_S):
        replay.at(now)
    return replay


def quiet(sizes: Sizes) -> Table:
    """False alarms of the rules on sites in a full mesh without a rise."""
    results = Table(("loss", "path-hours", "sites", "AS", *RULES, "allowed"))
    for ratio, as_count in ((0.0, 0), (0.001, 0), (0.01, 0), (0.001, QUIET_AS), (0.01, QUIET_AS)):
        sites, rounds = (QUIET_SITES_WITH_AS, ROUNDS_WITH_AS) if as_count else (QUIET_SITES, 1)
        of_rounds = [_quiet(ratio, as_count, sites, sizes.quiet_hours, seed) for seed in range(8, 8 + rounds)]
        counts = [sum(alarms) for alarms in zip(*of_rounds, strict=True)]
        hours = rounds * sites * (sites - 1) * sizes.quiet_hours
        results.rows.append(
            (f"{ratio:.1%}", f"{hours:,}", f"{sites}", f"{as_count}", *map(str, counts), f"{hours / 1e4:.1f}")
        )
        if counts[0] > 1:
            results.failures.append(f"{ratio:.1%}, {as_count} AS: {counts[0]} incidents of shared loss without any")
    return results


def _quiet(ratio: float, as_count: int, sites: int, hours: int, seed: int) -> list[int]:
    """The incidents with a finding of each of RULES, in a full mesh without a rise."""
    pinged = paths.full_mesh([f"site{number}" for number in range(sites)])
    random, cycles = np.random.default_rng(seed), hours * 3600 // CYCLE_S
    source = RecordedSource(
        paths.bursts(len(pinged), cycles, np.full(1, ratio), random), past=paths.past(len(pinged), ratio, random)
    )
    through = {
        f"AS {number}": frozenset((1 + np.flatnonzero(random.random(len(pinged)) < AS_SHARE)).tolist())
        for number in range(as_count)
    }
    replay = Replay(paths.scope(pinged), SourceWithAs(source, through), RULES)
    for now in moments(BEGAN, BEGAN + timedelta(hours=hours), CYCLE_S):
        replay.at(now)
    return [sum(rule in {name for _, name in alarm.ever} for alarm in replay.alarms) for rule in RULES]


def _minutes(replay: Replay, rules: tuple[str, ...]) -> dict[int, float]:
    """Minutes from the rise to the first finding of each path by these rules."""
    rose = BEGAN + timedelta(seconds=BEFORE_CYCLES * CYCLE_S)
    first: dict[int, float] = {}
    for now, finding in replay.findings:
        if finding.rule in rules and now > rose and finding.path_id <= len(FAR):
            first.setdefault(finding.path_id, (now - rose).total_seconds() / 60.0)
    return first
