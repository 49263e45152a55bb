"""Bounds of a round of traces, which give its longest duration as well."""

from __future__ import annotations

# How many TTLs are probed together where the length of a route is not known.
WINDOW_HOPS = 4
# How many routes are checked at a router that they share, each round.
MOST_CHECKS = 60
