"""The use of the limits, on disk: a test counts its maximum from its start, so that no restart resets it."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from probes.contract import Outcome, ProbeError
from probes.private_files import replace_privately
from probes.site.limits.limits import Limits
from probes.throughput.limits import FillsThePath

logger = logging.getLogger(__name__)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


class UsageEntry(msgspec.Struct, kw_only=True):
    """A test that counts."""

    at: datetime
    address: str
    seconds: float = 0.0
    bits: float = 0.0
    packets: int = 0
    offered: bool = False  # of a client outside the mesh


class UsageCounts(msgspec.Struct, kw_only=True):
    throughput: list[UsageEntry] = []
    capacity: list[UsageEntry] = []


class UsageError(Exception):
    """The usage file cannot be read; the message has the reason and a fix."""


class Usage:
    """The counts of an agent, in memory without a file. Safe to use from any thread."""

    def __init__(
        self, limits: Limits, file: Path | None = None, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._limits = limits
        self._file = file
        self._now = now
        self._lock = threading.Lock()
        self._kept = read_usage(file)
        self._running = 0

    @contextlib.contextmanager
    def testing(self, spec: FillsThePath, address: str, *, offered: bool = False) -> Iterator[UsageEntry]:
        """Count a test during the context. Raises ProbeError if the day is full."""
        with self._lock:
            likely_bits = self._likely_bits(spec, address, spec.length_s)
            used = UsageEntry(at=self._now(), address=address, seconds=spec.length_s, bits=likely_bits, offered=offered)
            rule = self._forbids(used) or self._limits.forbids_beside(self._running)
            if rule is not None:
                raise ProbeError(rule, outcome=Outcome.NOT_PERMITTED)
            self._kept.throughput.append(used)
            self._running += 1
            self._write()
        try:
            yield used
        finally:
            with self._lock:
                self._running -= 1
                self._write()

    def forbids_offered(self, spec: FillsThePath) -> str | None:
        """The rule against another test of an outside client today, or None."""
        with self._lock:
            likely_bits = self._likely_bits(spec, "", spec.length_s)
            return self._forbids(
                UsageEntry(at=self._now(), address="", seconds=spec.length_s, bits=likely_bits, offered=True)
            )

    def _forbids(self, wanted: UsageEntry) -> str | None:
        """Rule against a test, or None. Call with the lock held."""
        used_s, used_bits = usage_of_day(self._kept, wanted.at)
        rule = self._limits.forbids_share(wanted.seconds, used_s, wanted.bits, used_bits)
        if rule is None and wanted.offered:
            offered = UsageCounts(throughput=[entry for entry in self._kept.throughput if entry.offered])
            offered_s, _ = usage_of_day(offered, wanted.at)
            rule = self._limits.section("iperf3_server").forbids_share(wanted.seconds, offered_s)
        return rule

    def note_packets(self, address: str, packets: int) -> None:
        with self._lock:
            self._kept.capacity.append(UsageEntry(at=self._now(), address=address, packets=packets))
            self._write()

    def packets_within_hour(self, address: str) -> int:
        since = self._now() - HOUR
        with self._lock:
            return sum(entry.packets for entry in self._kept.capacity if entry.address == address and entry.at > since)

    def today(self) -> tuple[float, float]:
        """Seconds and bits of throughput tests on this day, UTC."""
        with self._lock:
            return usage_of_day(self._kept, self._now())

    def _likely_bits(self, spec: FillsThePath, address: str, length_s: float) -> float:
        """Bits at the set rate, else the fastest test's within a day, else 0."""
        if spec.rate_bps is not None:
            return spec.rate_bps * length_s
        rates = [
            entry.bits / entry.seconds for entry in self._kept.throughput if entry.address == address and entry.seconds
        ]
        return max(rates, default=0.0) * length_s

    def _write(self) -> None:
        """Delete expired entries and write the file. Call with the lock held."""
        now = self._now()
        self._kept.throughput = [entry for entry in self._kept.throughput if entry.at > now - DAY]
        self._kept.capacity = [entry for entry in self._kept.capacity if entry.at > now - HOUR]
        if self._file is None:
            return
        try:
            with replace_privately(self._file, self._file.with_suffix(".new")) as file:
                file.write(msgspec.json.encode(self._kept))
        except OSError as error:
            logger.error("usage: %s cannot be written: %s; counted in memory until it can", self._file, error)


def usage_of_day(kept: UsageCounts, now: datetime) -> tuple[float, float]:
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    today = [entry for entry in kept.throughput if entry.at >= midnight]
    return sum(entry.seconds for entry in today), sum(entry.bits for entry in today)


def read_usage(file: Path | None) -> UsageCounts:
    """The counts in the file; empty if there is no file. Raises `UsageError`."""
    if file is None:
        return UsageCounts()
    try:
        return msgspec.json.decode(file.read_bytes(), type=UsageCounts)
    except FileNotFoundError:
        return UsageCounts()
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{file}: {error}; remove it to count from nothing again") from error
