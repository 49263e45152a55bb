from __future__ import annotations

from collections.abc import Sequence

from django import template

from monitor.analysis.figures import EXCLUDED_PACKETS
from monitor.reports.numbers import Numbers

register = template.Library()


@register.filter
def with_heads(line: Sequence[str], heads: Sequence[str]) -> list[tuple[str, str]]:
    """Pair the cells of a row with column heads, which narrow screens show."""
    return list(zip(line, heads, strict=False)) if heads else [(cell, "") for cell in line]


@register.filter
def figures_of(text: str, numbers: Numbers) -> str:
    """Localize the figures of a template's own text."""
    return numbers.figures_of(text)


@register.simple_tag
def excluded_packets() -> str:
    """Packets excluded from all figures but those under load."""
    return EXCLUDED_PACKETS
