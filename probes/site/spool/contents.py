"""The contents of a spool, read by other processes than the agent: `site status` and the agent's metrics."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from probes.site.health import Dropped
from probes.site.spool import losses, results, slots
from probes.site.spool.database import SpoolError


@dataclass(frozen=True, slots=True)
class SpoolContents:
    """How much is in a spool: results not yet acknowledged, results in quarantine, results ever dropped, and the
    numbers of the slots that run, with their kinds. `dropped_for` are the dropped results by kind and reason,
    `set_aside_for` the most frequent reasons in the quarantine with their numbers of results."""

    queued: int
    set_aside: int
    dropped: int
    slots: tuple[int, ...]
    slot_kinds: tuple[str, ...] = ()
    dropped_for: tuple[Dropped, ...] = ()
    set_aside_for: tuple[tuple[str, int], ...] = ()


def read_contents(path: Path) -> SpoolContents:
    """Read a spool that an agent may be using now, without changing it. Raises `SpoolError`."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            return SpoolContents(
                queued=results.count(connection),
                set_aside=losses.count_quarantined(connection),
                dropped=losses.count_dropped(connection),
                slots=slots.unfinished_numbers(connection),
                slot_kinds=slots.unfinished_kinds(connection),
                dropped_for=losses.dropped_by_kind(connection),
                set_aside_for=losses.commonest_reasons(connection),
            )
    except sqlite3.Error as error:
        raise SpoolError(f"spool {path}: {error}; run this as the agent's user") from error
