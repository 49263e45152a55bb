"""The packets after a cycle that are not counted: they ask a reflector for its counter and its last send time."""

from __future__ import annotations

from probes.stamp.spec import StampSpec

# Packets to a target whose last packets went unanswered, to read the reflector's counter.
CLOSING_PACKETS = 3
LONGEST_CLOSING_SPACING_S = 1.0


def closing_s(spec: StampSpec) -> float:
    """The time that these packets take, with the wait for the last send time of replies."""
    return (CLOSING_PACKETS + 1) * min(spec.spacing_s, LONGEST_CLOSING_SPACING_S) + 2 * spec.timeout_s
