"""Results suspected of causing 5xx answers to their batch: each is retried alone, between other results.

Only the centre's answers tell a result that it cannot take from a centre that takes nothing. So a failure counts
against a result only where it was alone in its batch, and where the centre has taken another result since the failure
before. Kept in memory: an agent that starts again begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable

FAILURES_ALONE = 4
"""Failures alone before a result is quarantined. With a centre that fails every other request, a good result is
quarantined in 1 of 16 cases."""
MAX_CANDIDATES = 1000
"""More of them are no culprits: the centre takes nothing."""


class QuarantineCandidates:
    """Failures by sequence number, and which results may be tried again."""

    def __init__(self) -> None:
        self._failures: dict[int, int] = {}
        self._due: set[int] = set()

    def __len__(self) -> int:
        return len(self._failures)

    @property
    def sequences(self) -> frozenset[int]:
        return frozenset(self._failures)

    def due(self) -> int | None:
        """The oldest to be tried alone now; None where none is."""
        return min(self._due, default=None)

    def failed(self, sequence: int) -> bool:
        """Note that a result failed alone; whether it is surely the culprit."""
        if sequence not in self._failures or sequence in self._due:
            if len(self._failures) == MAX_CANDIDATES:
                self.clear()
            self._failures[sequence] = self._failures.get(sequence, 0) + 1
            self._due.discard(sequence)
        return self._failures[sequence] >= FAILURES_ALONE

    def accepted(self, sequences: Iterable[int]) -> None:
        """The centre has taken these results: so it takes some, and these are no suspects."""
        taken = set(sequences)
        for sequence in taken:
            self._failures.pop(sequence, None)
        if taken:
            self._due = set(self._failures)

    def forget(self, sequence: int) -> None:
        self._failures.pop(sequence, None)
        self._due.discard(sequence)

    def clear(self) -> None:
        self._failures.clear()
        self._due.clear()
