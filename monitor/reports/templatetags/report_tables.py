"""Template filter and tag of the reports."""

from __future__ import annotations

from collections.abc import Sequence

from django import template

from monitor.analysis.figures import EXCLUDED_PACKETS

register = template.Library()


@register.filter
def with_heads(line: Sequence[str], heads: Sequence[str]) -> list[tuple[str, str]]:
    """The cells of a row with the heads of their columns, which narrow screens show before each cell."""
    return list(zip(line, heads, strict=False)) if heads else [(cell, "") for cell in line]


@register.simple_tag
def excluded_packets() -> str:
    """Which packets are in no figure but those under load."""
    return EXCLUDED_PACKETS
