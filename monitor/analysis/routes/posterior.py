"""The posterior probability that each part of the routes is faulty (none, one or two), given which paths are bad; a
path or pair of hosts may be bad by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.analysis.routes.crossings import MeshPath
from monitor.arrays import Floats

Indexes = NDArray[np.int64]

# Share of the paths across a faulty part that looks bad.
HIT_RATIOS, HIT_WEIGHTS = np.array([0.5, 0.75, 0.9, 0.98]), np.array([0.2, 0.25, 0.3, 0.25])
# Share of other paths that looks bad.
OWN_RATIOS, OWN_WEIGHTS = np.array([0.005, 0.02, 0.06, 0.15]), np.array([0.3, 0.35, 0.25, 0.1])
PAIR_SHARE = 0.1
# PAIR_SHARE: troubled pairs of hosts per path bad by itself; PAIR_HIT: bad share of their two paths.
PAIR_HIT = 0.9

# Prior probability that bad paths have no part in common.
NO_PART = 0.3
# Prior probability of two faulty parts at once.
TWO_PARTS = 0.05
# Parts that are tried in pairs with every other part.
MOST_IN_PAIRS = 12


@dataclass(frozen=True, slots=True)
class PathStates:
    """Bad and normal paths."""

    bad: NDArray[np.bool_]
    there: Indexes  # indexes of pairs of paths that cross the same parts
    back: Indexes
    alone: Indexes  # indexes of the other paths
    normal_pairs: int  # normal paths across no part, without an index
    normal_alone: int

    def log_likelihood(self, reached: Floats, own: float) -> Floats:
        """Log likelihood of the states for each row of `reached`, probabilities that a fault makes each path bad."""
        normal = (1.0 - own) * (1.0 - reached)
        by_itself = np.where(self.bad, 1.0 - normal, normal)
        normal *= 1.0 - PAIR_HIT
        in_pair = np.where(self.bad, 1.0 - normal, normal)
        both = PAIR_SHARE * own
        pairs = (1.0 - both) * by_itself[:, self.there] * by_itself[:, self.back]
        pairs += both * in_pair[:, self.there] * in_pair[:, self.back]
        alone = (1.0 - both) * by_itself[:, self.alone] + both * in_pair[:, self.alone]
        normal_pair = (1.0 - own) ** 2 * (1.0 - both * (1.0 - (1.0 - PAIR_HIT) ** 2))
        normal_path = (1.0 - own) * (1.0 - both * PAIR_HIT)
        elsewhere = self.normal_pairs * np.log(normal_pair) + self.normal_alone * np.log(normal_path)
        return np.asarray(np.log(pairs).sum(axis=1) + np.log(alone).sum(axis=1) + elsewhere)


def path_states(paths: Sequence[MeshPath], places: Sequence[int]) -> PathStates:
    """States of the paths with these indexes, by position, and counts of all others; unknown states are left out."""
    known = {place: path for place, path in enumerate(paths) if path.is_bad is not None}
    ends = {(path.source, path.destination): place for place, path in known.items() if path.reverse}
    position = {place: number for number, place in enumerate(places)}
    pairs, alone = [], []
    for place, path in known.items():
        other = ends.get((path.destination, path.source)) if path.reverse else None
        if other is None or other == place:
            alone.append(place)
        elif place < other:
            pairs.append((place, other))
    near = [(position[there], position[back]) for there, back in pairs if there in position and back in position]
    split = [place for pair in pairs for place in pair if (pair[0] in position) != (pair[1] in position)]
    singles = [position[place] for place in [*alone, *split] if place in position]
    return PathStates(
        np.array([paths[place].is_bad is True for place in places], dtype=bool),
        np.array([there for there, _ in near], dtype=np.int64),
        np.array([back for _, back in near], dtype=np.int64),
        np.array(singles, dtype=np.int64),
        sum(there not in position and back not in position for there, back in pairs),
        sum(place not in position for place in [*alone, *split]),
    )


def posterior(columns: Floats, states: PathStates, prior: Floats) -> Floats:
    """The probability of each row of `columns` to be faulty, alone or as one of two."""
    count = len(columns)
    singles = np.empty((len(HIT_RATIOS), len(OWN_RATIOS), count))
    none = np.empty(len(OWN_RATIOS))
    for j, own in enumerate(OWN_RATIOS):
        none[j] = states.log_likelihood(np.zeros((1, columns.shape[1])), own)[0] + np.log(OWN_WEIGHTS[j])
        for i, hit in enumerate(HIT_RATIOS):
            weight = np.log(HIT_WEIGHTS[i] * OWN_WEIGHTS[j])
            singles[i, j] = states.log_likelihood(columns * hit, own) + weight
    log_none = np.logaddexp.reduce(none) + np.log(NO_PART)
    log_single = np.logaddexp.reduce(singles.reshape(-1, count), axis=0) + np.log((1 - NO_PART - TWO_PARTS) * prior)
    best = np.argsort(log_single)[::-1][:MOST_IN_PAIRS]
    pairs = np.full((len(best), count), -np.inf)
    for row, first in enumerate(best):
        i, j = divmod(int(singles[:, :, first].argmax()), len(OWN_RATIOS))
        hit, own = HIT_RATIOS[i], OWN_RATIOS[j]
        reached = 1.0 - (1.0 - columns[first] * hit) * (1.0 - columns * hit)
        pairs[row] = states.log_likelihood(reached, own) + np.log(HIT_WEIGHTS[i] * OWN_WEIGHTS[j])
        # A pair of two of the best is met twice.
        pairs[row, best[: row + 1]] = -np.inf
    pairs += np.log(TWO_PARTS * 2.0) + np.log(prior[best])[:, np.newaxis] + np.log(prior)
    highest = max(log_none, log_single.max(), pairs.max())
    weights, of_pairs = np.exp(log_single - highest), np.exp(pairs - highest)
    total = np.exp(log_none - highest) + weights.sum() + of_pairs.sum()
    weights += of_pairs.sum(axis=0)
    np.add.at(weights, best, of_pairs.sum(axis=1))
    return np.asarray(weights / total)
