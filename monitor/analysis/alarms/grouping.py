"""Find the fewest common causes of simultaneously bad paths: a site, a direction of a site, a host, a link, two
regions.

Causes and normal paths have prices, log probabilities in NATS. Integer programming finds the cheapest set; a cause must
be cheaper by MARGIN than none and any rival.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import scipy  # loads scipy.optimize at its first use: a second, which most processes do not need
from numpy.typing import NDArray

from monitor.analysis.alarms.candidates import (
    EXCEPTION_PRICE,
    PRICES,
    Candidate,
    CauseKind,
    PathLocation,
    candidates,
)

# Faults are found in milliseconds; only bad paths at random take longer.
LONGEST_SEARCH_S = 1.5

# A common cause must be cheaper by this than any other single cause and than none: ten times as likely.
MARGIN = 0.5

# Nats of a unit of price: a path is bad by itself with probability exp(-NATS), 1%.
NATS = 4.6

# Log Bayes factor of a path neither for nor against a cause; a weaker one counts against it.
LEAST_EVIDENCE = 1.5

# Most that a path without an alarm counts for a cause; an alarmed path counts 1.
MOST_SUPPORT = 0.8

# Fewer bad paths are no evidence for a cause.
LEAST_BAD = 2


class OtherPathsEvidence(Protocol):
    """Evidence of paths without an alarm."""

    def log_factors(self, bad: Collection[int], others: Sequence[int]) -> NDArray[np.float64]:
        """Log Bayes factors of `others` to be affected as `bad` paths, against normal; 0 without evidence, minus
        infinity if certainly normal."""
        ...


@dataclass(frozen=True, slots=True)
class Cause:
    kind: CauseKind
    name: str
    path_ids: frozenset[int]  # bad paths it accounts for
    bad: int  # of the measured paths
    measured: int  # paths it would make bad
    reverse_bad: int  # opposite direction of a site; 0 for other kinds
    reverse_known: int
    elsewhere_bad: int  # of the measured paths that are not in covered
    elsewhere_known: int
    suspected: int = 0  # paths that are not bad, with evidence for the cause
    reverse_unclear: int = 0  # in the opposite direction of a site, not shown to be normal
    covered: frozenset[int] = frozenset()  # measured paths it would make bad, and of the opposite direction


def explain(
    lines: Sequence[PathLocation],
    bad: Collection[int],
    unknown: Collection[int] = frozenset(),
    links: Mapping[str, Collection[int]] | None = None,
    evidence: OtherPathsEvidence | None = None,
    places: Mapping[str, Collection[int]] | None = None,
) -> list[Cause]:
    """Causes of the `bad` paths, largest first; `unknown` paths do not count. `links` has the paths across each link by
    name, `places` across each common hop, AS or border. Without `evidence` other paths are normal."""
    bad_ids = frozenset(bad) - frozenset(unknown)
    measured = frozenset(line.path_id for line in lines) - frozenset(unknown)
    if not bad_ids:
        return []
    general = [
        weighed(candidate, bad_ids, measured, evidence)
        for candidate in candidates(lines, links or {}, places)
        if len(candidate.path_ids & bad_ids) >= LEAST_BAD
    ]
    general = [candidate for candidate in general if is_worthwhile(candidate, bad_ids, measured)]
    chosen = [general[place] for place in cheapest(general, bad_ids, measured)]
    facts = _Facts(lines, bad_ids, measured, evidence)
    return _with_figures(facts, without_rivals(chosen, general, bad_ids, measured), bad_ids)


def weighed(
    candidate: Candidate, bad: frozenset[int], measured: frozenset[int], evidence: OtherPathsEvidence | None
) -> Candidate:
    """The candidate with the support of its paths without an alarm. A pair needs alarms in both directions."""
    others = sorted((candidate.path_ids & measured) - bad)
    if evidence is None or not others or candidate.kind is CauseKind.PAIR:
        return candidate
    factors = evidence.log_factors(candidate.path_ids & bad, others)
    return replace(candidate, support=dict(zip(others, support(factors).tolist(), strict=True)))


def support(log_factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Support of paths with these log Bayes factors for a cause, in units of price, allowing for chance both ways."""
    spared, by_itself = math.exp(-EXCEPTION_PRICE * NATS), math.exp(-PRICES[CauseKind.PATH] * NATS)
    factors = np.asarray(log_factors, dtype=np.float64) - LEAST_EVIDENCE
    affected = np.logaddexp(factors + math.log1p(-spared), math.log(spared))
    normal = np.logaddexp(math.log1p(-by_itself), factors + math.log(by_itself))
    return np.clip((affected - normal) / NATS, -EXCEPTION_PRICE, MOST_SUPPORT)


def is_worthwhile(candidate: Candidate, bad: frozenset[int], measured: frozenset[int]) -> bool:
    """Whether the candidate alone is cheaper than leaving its bad paths without a cause."""
    without = Explanation([], candidate.path_ids & bad, measured)
    return without.price + without.added(candidate) < without.price


def without_rivals(
    chosen: Sequence[Candidate], general: Sequence[Candidate], bad: frozenset[int], measured: frozenset[int]
) -> list[Candidate]:
    """Chosen causes cheaper by MARGIN than any rival and than none; the other bad paths get pairs bad in both
    directions. Candidates of the same measured paths are no rivals."""
    general_causes = [candidate for candidate in chosen if candidate.kind is not CauseKind.PAIR]
    pairs = [candidate for candidate in chosen if candidate.kind is CauseKind.PAIR]
    of_pairs, places = Explanation(pairs, bad, measured), {id(candidate) for candidate in chosen}
    kept = []
    for candidate in chosen:
        if candidate.kind is CauseKind.PAIR:
            kept.append(candidate)
            continue
        rest = of_pairs.extended(other for other in general_causes if other is not candidate)
        own, of_bad, most = candidate.path_ids & measured, candidate.path_ids & bad, rest.added(candidate) + MARGIN
        if most - 1e-9 <= 0.0 and all(
            rest.added(rival) >= most - 1e-9
            for rival in general
            if not of_bad.isdisjoint(rival.path_ids) and id(rival) not in places and rival.path_ids & measured != own
        ):
            kept.append(candidate)
    if len(kept) < len(chosen):
        left = bad.difference(*(candidate.path_ids for candidate in kept))
        kept += [
            candidate
            for candidate in general
            if candidate.kind is CauseKind.PAIR and candidate.path_ids & measured <= left
        ]
    return kept


def cheapest(general: Sequence[Candidate], bad: frozenset[int], measured: frozenset[int]) -> list[int]:
    """Indices of the candidates of the cheapest explanation, by integer programming; the choice determines the other
    unknowns."""
    if not general:
        return []
    bad_row = {path_id: row for row, path_id in enumerate(sorted(bad))}
    well = sorted(frozenset().union(*(candidate.path_ids for candidate in general)) & measured - bad)
    highest = dict.fromkeys(well, 0.0)
    for candidate in general:
        for path_id in candidate.path_ids & highest.keys():
            highest[path_id] = max(highest[path_id], candidate.exception(path_id))
    well_column = {path_id: len(general) + len(bad_row) + place for place, path_id in enumerate(well)}
    gain_row = {path_id: len(bad_row) + row for row, path_id in enumerate(well)}
    entries: list[tuple[int, int, float]] = [(row, len(general) + row, 1.0) for row in bad_row.values()]
    row, width = len(bad_row) + len(well), len(general) + len(bad_row) + len(well)
    gains: list[float] = []
    for place, candidate in enumerate(general):
        entries += [(bad_row[path_id], place, 1.0) for path_id in candidate.path_ids if path_id in bad_row]
        for path_id in candidate.path_ids & well_column.keys():
            exception, gain = candidate.exception(path_id), candidate.gain(path_id)
            if exception > 0.0:
                entries += [(row, well_column[path_id], 1.0), (row, place, -exception / highest[path_id])]
                row += 1
            if gain > 0.0:
                entries += [(row, place, 1.0), (row, width + len(gains), -1.0)]
                entries.append((gain_row[path_id], width + len(gains), -1.0))
                gains.append(gain)
                row += 1
    rows, columns, values = zip(*entries, strict=True)
    prices = np.array(
        [
            *(PRICES[candidate.kind] for candidate in general),
            *(PRICES[CauseKind.PATH] for _ in bad_row),
            *highest.values(),
            *(-gain for gain in gains),
        ]
    )
    least = np.zeros(row)
    least[: len(bad_row)] = 1.0
    least[len(bad_row) : len(bad_row) + len(well)] = -1.0
    width += len(gains)
    table = scipy.sparse.coo_array((values, (rows, columns)), shape=(row, width)).tocsr()
    solution = scipy.optimize.milp(
        prices,
        options={"time_limit": LONGEST_SEARCH_S},
        integrality=np.arange(width) < len(general),
        bounds=scipy.optimize.Bounds(0, 1),
        constraints=scipy.optimize.LinearConstraint(table, lb=least),
    )
    greedy = greedy_choice(general, bad, measured)
    if solution.x is None:
        return greedy
    exact = np.flatnonzero(solution.x[: len(general)] > 0.5).tolist()
    return min((exact, greedy), key=lambda places: price([general[place] for place in places], bad, measured))


def greedy_choice(general: Sequence[Candidate], bad: frozenset[int], measured: frozenset[int]) -> list[int]:
    """Greedy explanation: repeatedly add the candidate that saves most. Fast, but not always the cheapest."""
    chosen: list[int] = []
    uncovered, excused = set(bad), set[int]()
    others = [(candidate.path_ids & measured) - bad for candidate in general]
    savings = np.zeros(len(general))
    changed = list(range(len(general)))
    while general:
        for place in changed:
            candidate = general[place]
            of_bad = PRICES[CauseKind.PATH] * len(candidate.path_ids & uncovered)
            savings[place] = of_bad - PRICES[candidate.kind] + _support(candidate, others[place] - excused)
        best = int(savings.argmax())
        if savings[best] <= 0:
            break
        chosen.append(best)
        newest = general[best].path_ids
        uncovered -= newest
        excused |= others[best]
        changed = [place for place, candidate in enumerate(general) if not newest.isdisjoint(candidate.path_ids)]
    return chosen


def _support(candidate: Candidate, others: Collection[int]) -> float:
    if not candidate.support:
        return -EXCEPTION_PRICE * len(others)
    return sum(candidate.support.get(path_id, -EXCEPTION_PRICE) for path_id in others)


class Explanation:
    """A set of causes, with the bad paths left without a cause and the other paths of the causes."""

    def __init__(self, chosen: Sequence[Candidate], bad: frozenset[int], measured: frozenset[int]) -> None:
        self._measured, self._bad = measured, bad
        self._left = set(bad)
        self._exceptions, self._gains = dict[int, float](), dict[int, float]()
        self.price = PRICES[CauseKind.PATH] * len(bad)
        for candidate in chosen:
            self._add(candidate)

    def extended(self, chosen: Iterable[Candidate]) -> Explanation:
        longer = Explanation([], self._bad, self._measured)
        longer.price, longer._left = self.price, set(self._left)
        longer._exceptions, longer._gains = dict(self._exceptions), dict(self._gains)
        for candidate in chosen:
            longer._add(candidate)
        return longer

    def added(self, candidate: Candidate) -> float:
        cost = PRICES[candidate.kind] - PRICES[CauseKind.PATH] * len(candidate.path_ids & self._left)
        support, exceptions, gains = candidate.support, self._exceptions, self._gains
        # Without calls: this is the inner loop of the comparison of all causes.
        for path_id in (candidate.path_ids & self._measured) - self._bad:
            worth = support.get(path_id, -EXCEPTION_PRICE)
            if worth < 0.0:
                exception = -worth - exceptions.get(path_id, 0.0)
                cost += exception if exception > 0.0 else 0.0
            elif worth > 0.0:
                gain = worth - gains.get(path_id, 0.0)
                cost -= gain if gain > 0.0 else 0.0
        return cost

    def _add(self, candidate: Candidate) -> None:
        self.price += self.added(candidate)
        self._left -= candidate.path_ids
        for path_id in (candidate.path_ids & self._measured) - self._bad:
            exception, gain = candidate.exception(path_id), candidate.gain(path_id)
            self._exceptions[path_id] = max(self._exceptions.get(path_id, 0.0), exception)
            self._gains[path_id] = max(self._gains.get(path_id, 0.0), gain)


def price(chosen: Sequence[Candidate], bad: frozenset[int], measured: frozenset[int]) -> float:
    """Cost of an explanation: its causes, bad paths without cause, other paths of its causes."""
    return Explanation(chosen, bad, measured).price


def _with_figures(facts: _Facts, chosen: list[Candidate], bad: frozenset[int]) -> list[Cause]:
    # Each bad path is assigned to the largest cause; the rest to themselves.
    left = set(bad)
    causes = []
    for candidate in sorted(
        chosen, key=lambda candidate: (-len(candidate.path_ids & bad), candidate.kind, candidate.name)
    ):
        explained = frozenset(candidate.path_ids & left)
        left -= explained
        if explained:
            causes.append(facts.cause(candidate, explained))
    for path_id in sorted(left):
        line = facts.lines[path_id]
        alone = Candidate(CauseKind.PATH, f"{line.source} → {line.destination}", frozenset({path_id}))
        causes.append(facts.cause(alone, alone.path_ids))
    return causes


class _Facts:
    """Bad and normal paths, for the figures of each cause."""

    def __init__(
        self,
        lines: Sequence[PathLocation],
        bad: frozenset[int],
        measured: frozenset[int],
        evidence: OtherPathsEvidence | None,
    ) -> None:
        self.lines = {line.path_id: line for line in lines}
        self._bad, self._known, self._evidence = bad, measured, evidence
        self._opposite: dict[tuple[str, ...], set[int]] = defaultdict(set)
        for line in lines:
            self._opposite[CauseKind.OUTBOUND, line.destination_site].add(line.path_id)
            self._opposite[CauseKind.INBOUND, line.source_site].add(line.path_id)
            self._opposite[CauseKind.PATH, f"{line.destination} → {line.source}"].add(line.path_id)

    def cause(self, candidate: Candidate, explained: frozenset[int]) -> Cause:
        said = candidate.path_ids & self._known
        reverse = self._opposite[candidate.kind, candidate.name] & self._known
        bad, reverse_bad = len(said & self._bad), len(reverse & self._bad)
        return Cause(
            kind=candidate.kind,
            name=candidate.name,
            path_ids=explained,
            bad=bad,
            measured=len(said),
            reverse_bad=reverse_bad,
            reverse_known=len(reverse),
            elsewhere_bad=len(self._bad) - bad - reverse_bad,
            elsewhere_known=len(self._known) - len(said) - len(reverse),
            suspected=sum(candidate.gain(path_id) > 0.0 for path_id in said - self._bad),
            reverse_unclear=(
                self._unclear(explained, reverse - self._bad)
                if candidate.kind in (CauseKind.OUTBOUND, CauseKind.INBOUND)
                else 0
            ),
            covered=said | reverse,
        )

    def _unclear(self, bad: frozenset[int], others: Collection[int]) -> int:
        if self._evidence is None or not others:
            return 0
        return int((self._evidence.log_factors(bad, sorted(others)) > -LEAST_EVIDENCE).sum())
