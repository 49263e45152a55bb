"""Numbers as a reader writes them: `en` 1,234.5; `de` 1.234,5; `fr` 1 234,5; `ch` 1’234.5. Words stay English."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from monitor.analysis import figures

# Thousands separator and decimal mark, by language.
MARKS = {"en": (",", "."), "de": (".", ","), "fr": ("\N{NARROW NO-BREAK SPACE}", ","), "ch": ("’", ".")}

LEAST_CHANGE = 0.001
# Not a part of an address such as 192.0.2.1.
_NUMBER = re.compile(r"(?<![\d.,])\d+(?:,\d{3})*(?:\.\d+)?(?![.,]?\d)")


@dataclass(frozen=True, slots=True)
class Numbers:
    """Formats figures in a language of `MARKS`."""

    language: str = "en"

    def __post_init__(self) -> None:
        if self.language not in MARKS:
            raise ValueError(f'number format "{self.language}" is unknown; valid: {", ".join(MARKS)}')

    def count(self, number: int) -> str:
        return self._marked(figures.count(number))

    def percent(self, ratio: float | None) -> str:
        return figures.NO_DATA if ratio is None else self._marked(figures.percent(ratio))

    def loss(self, lost: int, sent: int) -> str:
        return self._marked(figures.loss(lost, sent))

    def milliseconds(self, value_ms: float | None) -> str:
        return self._marked(figures.milliseconds(value_ms))

    def bit_rate(self, value_bps: float | None) -> str:
        return self._marked(figures.bit_rate(value_bps))

    def duration(self, seconds: float) -> str:
        return self._marked(figures.duration(seconds))

    def times(self, ratio: float) -> str:
        """A ratio to two digits: 2.5."""
        return self._marked(f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}" if ratio >= 0.1 else f"{ratio:.1g}")

    def signed(self, change: float) -> str:
        """A change with its sign, to two significant digits but not finer than a thousandth."""
        decimals = max(0, min(3, 1 - math.floor(math.log10(abs(change)))))
        return self._marked(f"{change:+,.{decimals}f}".replace("-", "\N{MINUS SIGN}"))

    def chance(self, chance: float) -> str:
        """Format a probability: 0.013, and below a thousandth as the next higher power of ten."""
        if chance >= 0.001:
            return self._marked(f"{chance:.2g}")
        return f"< 1e{math.ceil(math.log10(chance))}" if chance > 0 else "< 1e-300"

    def size(self, size_bytes: float) -> str:
        """A size to two significant digits: 680 kB."""
        for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
            if size_bytes >= scale:
                return self._marked(f"{float(f'{size_bytes / scale:.2g}'):g} {unit}")
        return f"{size_bytes:.0f} B"

    def figures_of(self, text: str) -> str:
        """Localize the numbers in a text such as `loss 2.1% now, peak 1,140 ms`; other marks stay."""
        return self._marked(text)

    def _marked(self, text: str) -> str:
        if self.language == "en":
            return text
        group, point = MARKS[self.language]
        marks = str.maketrans({",": group, ".": point})
        return _NUMBER.sub(lambda number: number[0].translate(marks), text)
