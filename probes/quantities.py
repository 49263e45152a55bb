"""Formats quantities in messages: a number with its noun or unit."""

from __future__ import annotations

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def counted(count: int, noun: str) -> str:
    """Format number and noun: "1 result", "1,204 results"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def duration_text(seconds: float) -> str:
    """Format a duration: "48 s", "1 min 48 s", "2 h 5 min", "10 min"."""
    whole_s = max(0, round(seconds))
    minutes, rest_s = divmod(whole_s, 60)
    hours, rest_min = divmod(minutes, 60)
    if hours:
        return f"{hours} h {rest_min} min" if rest_min else f"{hours} h"
    if minutes:
        return f"{minutes} min {rest_s} s" if rest_s else f"{minutes} min"
    return f"{rest_s} s"


def with_unit(value: float, unit: str) -> str:
    """Format three significant digits with prefix and unit: "12 GB", "2.5 Gbit"."""
    scale, prefix = next((pair for pair in _PREFIXES if value >= pair[0]), (1.0, ""))
    scaled = value / scale
    return f"{scaled:,.0f} {prefix}{unit}" if scaled >= 100 else f"{scaled:.3g} {prefix}{unit}"
