from __future__ import annotations

from datetime import timedelta

# Agents deliver within seconds of each cycle.
LATE_AFTER = timedelta(minutes=5)


def is_late(since_last_report: timedelta) -> bool:
    return since_last_report > LATE_AFTER
