"""Numbers with their noun in messages, such as "1 result" and "1,204 results"."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """The number and its noun, which takes an -s in the plural."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
