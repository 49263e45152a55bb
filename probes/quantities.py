"""Quantities in messages: a number with its noun or with a decimal prefix and unit."""

from __future__ import annotations

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def counted(count: int, noun: str) -> str:
    """The number and its noun, which takes an -s in the plural: "1 result", "1,204 results"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def with_unit(value: float, unit: str) -> str:
    """Three significant digits and the unit with its decimal prefix: "12 GB", "2.5 Gbit"."""
    scale, prefix = next((pair for pair in _PREFIXES if value >= pair[0]), (1.0, ""))
    scaled = value / scale
    return f"{scaled:,.0f} {prefix}{unit}" if scaled >= 100 else f"{scaled:.3g} {prefix}{unit}"
