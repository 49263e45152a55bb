"""Results suspected of causing 5xx answers, retried alone; kept in memory.

A failure counts only if the centre has accepted another result since the last.
"""

from __future__ import annotations

from collections.abc import Iterable

# Failures alone before quarantine: if every other request fails, 1 good result of 16 is quarantined.
FAILURES_ALONE = 4
# More of them are no culprits: the centre takes nothing.
MAX_CANDIDATES = 1000


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
        """The oldest to be tried alone now; None without any."""
        return min(self._due, default=None)

    def failed(self, sequence: int) -> bool:
        """Note that a result failed alone; return whether it is surely the culprit."""
        if sequence not in self._failures or sequence in self._due:
            if len(self._failures) == MAX_CANDIDATES:
                self.clear()
            self._failures[sequence] = self._failures.get(sequence, 0) + 1
            self._due.discard(sequence)
        return self._failures[sequence] >= FAILURES_ALONE

    def accepted(self, sequences: Iterable[int]) -> None:
        """Clear accepted results of suspicion."""
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
