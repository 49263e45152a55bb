"""How far ahead slots are planned, and sent to agents."""

from __future__ import annotations

# Planning horizon: agents that cannot reach the centre have tests for this long.
HORIZON_S = 3600
