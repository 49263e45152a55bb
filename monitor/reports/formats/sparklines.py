"""Small charts of daily values: as the path of an SVG, and as text for mails without pictures."""

from __future__ import annotations

from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"
GAP = "·"


def svg_path(
    values: Sequence[float | None],
    width: float,
    height: float,
    x: float = 0.0,
    y: float = 0.0,
    *,
    min_span: float = 0.0,
) -> str:
    """The `d` of an SVG path in a box at (x, y); missing days break the line. `min_span` is in the values' unit."""
    present = [value for value in values if value is not None]
    if not present:
        return ""
    low, high = min(present), max(present)
    missing = max(0.0, min_span - (high - low)) / 2.0
    low, high = low - missing, high + missing
    step = width / max(len(values) - 1, 1)
    parts = []
    drawing = False
    for number, value in enumerate(values):
        if value is None:
            drawing = False
            continue
        share = 0.5 if high == low else (value - low) / (high - low)
        place = f"{_short(x + number * step)} {_short(y + height * (1.0 - share))}"
        alone = not drawing and (number + 1 == len(values) or values[number + 1] is None)
        parts.append(f"{'L' if drawing else 'M'}{place}{'h.4' if alone else ''}")
        drawing = True
    return "".join(parts)


def text(values: Sequence[float | None]) -> str:
    """A bar for each value and a dot for none; empty without any value."""
    present = [value for value in values if value is not None]
    if not present:
        return ""
    low, high = min(present), max(present)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(GAP if value is None else BARS[round((value - low) * scale)] for value in values)


def _short(number: float) -> str:
    return f"{number:.1f}".rstrip("0").rstrip(".")
