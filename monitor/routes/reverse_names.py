"""Reverse names (PTR) of routers, cached in the database.

Special ranges are resolved only where SOUNDINGS_REVERSE_NAMES is "all", since a public resolver cannot know them.
"""

from __future__ import annotations

import queue
import re
import socket
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from monitor.routes.models import NameOutcome, ReverseName
from monitor.routes.special_ranges import special_ranges
from monitor.routes.tables.batches import AddressBatch, canonical_address, packed_address
from probes.contract import Deadline

# Time after which a result is resolved again.
DUE_AFTER = {
    NameOutcome.NAMED: timedelta(days=7),
    NameOutcome.NO_NAME: timedelta(days=1),
    NameOutcome.NO_ANSWER: timedelta(hours=1),
}

# `seen_at` is not written more often than this.
SEEN_AGAIN_AFTER = timedelta(days=1)

NAMES_AT_ONCE = 256
THREADS = 16
# A thread waits for its resolver even after the deadline, so several runs can have threads at a time.
MOST_THREADS = 64

LONGEST_NAME = 253
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?")
_NO_NAME_ERRORS = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
_free_threads = threading.BoundedSemaphore(MOST_THREADS)


@dataclass(frozen=True, slots=True)
class Resolution:
    outcome: NameOutcome
    name: str | None = None  # None unless the outcome is NAMED


NOT_ANSWERED = Resolution(NameOutcome.NO_ANSWER)
NOT_PERMITTED = Resolution(NameOutcome.NO_NAME)


def remember(addresses: Iterable[str], now: datetime) -> int:
    """Note addresses for `resolve_due`; return how many were not noted for a day."""
    permitted = _permitted({canonical_address(address) for address in addresses})
    recent = ReverseName.objects.filter(seen_at__gt=now - SEEN_AGAIN_AFTER).values_list("address", flat=True)
    noted = sorted(set(permitted).difference(recent.iterator()))
    ReverseName.objects.bulk_create(
        (ReverseName(address=address, due_at=now, seen_at=now) for address in noted),
        batch_size=2000,
        update_conflicts=True,
        unique_fields=["address"],
        update_fields=["seen_at"],
    )
    return len(noted)


def resolve_due(now: datetime, deadline: Deadline) -> int:
    """Resolve and store due names, longest due first; return the number of answers."""
    if settings.REVERSE_NAMES == "off":
        return 0
    due = ReverseName.objects.filter(due_at__lte=now, seen_at__gt=now - max(DUE_AFTER.values()))
    rows = {row.address: row for row in due.order_by("due_at")[:NAMES_AT_ONCE]}
    results = resolve(_permitted(rows), deadline)
    for address, row in rows.items():
        # Addresses that are no longer permitted wait as well, so that they do not hold up the others.
        resolution = results.get(address, NOT_PERMITTED)
        row.outcome, row.resolved_at, row.due_at = resolution.outcome, now, now + DUE_AFTER[resolution.outcome]
        # Without an answer the last name stays.
        if resolution.outcome != NameOutcome.NO_ANSWER:
            row.name = resolution.name
    ReverseName.objects.bulk_update(rows.values(), ["outcome", "resolved_at", "due_at", "name"])
    return sum(resolution.outcome != NameOutcome.NO_ANSWER for resolution in results.values())


def _permitted(addresses: Collection[str]) -> list[str]:
    if settings.REVERSE_NAMES == "off":
        return []
    texts = [address for address in addresses if packed_address(address) is not None]
    if settings.REVERSE_NAMES == "all":
        return texts
    numbers = special_ranges().find(AddressBatch.parse(texts)).tolist()
    return [address for address, number in zip(texts, numbers, strict=True) if not number]


def system_name(address: str) -> Resolution:
    try:
        name, _ = socket.getnameinfo((address, 0), socket.NI_NAMEREQD)
    except socket.gaierror as error:
        return Resolution(NameOutcome.NO_NAME) if error.errno in _NO_NAME_ERRORS else NOT_ANSWERED
    except OSError:
        return NOT_ANSWERED
    name = name.removesuffix(".")
    # The name is chosen by whoever has the address: anything but a host name counts as none.
    if len(name) > LONGEST_NAME or not _HOST_NAME.fullmatch(name):
        return Resolution(NameOutcome.NO_NAME)
    return Resolution(NameOutcome.NAMED, name)


def resolve(
    addresses: Collection[str], deadline: Deadline, look_up: Callable[[str], Resolution] = system_name
) -> dict[str, Resolution]:
    """Resolve in parallel; addresses without a result at the deadline are `NOT_ANSWERED`."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for address in addresses:
        waiting.put(address)
    results: queue.SimpleQueue[tuple[str, Resolution]] = queue.SimpleQueue()
    started, free_threads = 0, _free_threads
    while started < min(THREADS, len(addresses)) and free_threads.acquire(blocking=False):
        arguments = (waiting, results, deadline, look_up, free_threads)
        threading.Thread(target=_work, args=arguments, daemon=True).start()
        started += 1
    resolved: dict[str, Resolution] = {}
    while started and len(resolved) < len(addresses):
        try:
            address, resolution = results.get(timeout=deadline.remaining_s)
        except queue.Empty:
            break
        resolved[address] = resolution
    return {address: resolved.get(address, NOT_ANSWERED) for address in addresses}


def _work(
    waiting: queue.SimpleQueue[str],
    results: queue.SimpleQueue[tuple[str, Resolution]],
    deadline: Deadline,
    look_up: Callable[[str], Resolution],
    free_threads: threading.BoundedSemaphore,
) -> None:
    try:
        while not deadline.passed:
            address = waiting.get_nowait()
            results.put((address, look_up(address)))
    except queue.Empty:
        return
    finally:
        free_threads.release()
