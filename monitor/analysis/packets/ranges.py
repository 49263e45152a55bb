"""Ranges of bytes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class ByteRanges:
    """Disjoint ranges [begin, end), merged where they touch."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    @property
    def end(self) -> int | None:
        return self._ends[-1] if self._ends else None

    @property
    def total_bytes(self) -> int:
        return sum(self._ends) - sum(self._begins)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return list(zip(self._begins, self._ends, strict=True))

    def has(self, place: int) -> bool:
        at = bisect_right(self._begins, place) - 1
        return at >= 0 and place < self._ends[at]

    def within(self, begin: int, end: int) -> int:
        """The bytes of a range that are in these."""
        low, high = bisect_right(self._ends, begin), bisect_left(self._begins, end)
        return sum(min(end, self._ends[i]) - max(begin, self._begins[i]) for i in range(low, high))

    def intersection(self, other: ByteRanges) -> ByteRanges:
        both = ByteRanges()
        for begin, end in self.ranges:
            low, high = bisect_right(other._ends, begin), bisect_left(other._begins, end)
            for i in range(low, high):
                both.add(max(begin, other._begins[i]), min(end, other._ends[i]))
        return both

    def add(self, begin: int, end: int) -> int:
        """Add a range and return how many of its bytes are new."""
        if end <= begin:
            return 0
        low, high = bisect_left(self._ends, begin), bisect_right(self._begins, end)
        covered = sum(max(0, min(end, self._ends[i]) - max(begin, self._begins[i])) for i in range(low, high))
        if low < high:
            new_begin, new_end = min(begin, self._begins[low]), max(end, self._ends[high - 1])
        else:
            new_begin, new_end = begin, end
        self._begins[low:high], self._ends[low:high] = [new_begin], [new_end]
        return end - begin - covered
