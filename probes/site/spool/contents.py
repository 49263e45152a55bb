"""The contents of a spool as other processes read them."""

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
    queued: int  # not yet acknowledged
    set_aside: int  # in quarantine
    dropped: int  # ever
    slots: tuple[int, ...]  # running
    slot_kinds: tuple[str, ...] = ()
    dropped_for: tuple[Dropped, ...] = ()  # by kind and reason
    set_aside_for: tuple[tuple[str, int], ...] = ()  # most frequent reasons, with results


def read_contents(path: Path) -> SpoolContents:
    """Read a spool in use, without changing it. Raises `SpoolError`."""
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
