"""Counts per burst, for all targets and sizes of a session at once."""

from __future__ import annotations

import math
import socket
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from probes.bounds import MAX_ICMP_ERRORS
from probes.contract import LoadedPeriods, LoadPeriod
from probes.packets.addresses import FAMILY
from probes.packets.arrays import Bools, Int64s
from probes.packets.columns import EPOCH, STAMPS
from probes.packets.engine.packet_outcomes import EchoErrors, EchoResults
from probes.packets.icmp.icmp_errors import name_of
from probes.packets.spec import IcmpError, Stamp

HARDWARE, KERNEL = STAMPS.index("hardware"), STAMPS.index("kernel")
COUNTED = ("sent", "received", "late", "duplicates", "reordered", "stamps_lost", "waited")
MICROSECOND = timedelta(microseconds=1)

Counts = list[list[int]]
Scalar = TypeVar("Scalar", bound=np.generic)


class BurstCounts:
    """Counts of a session's bursts, by target and size.

    Packets `under_load` are only in `loaded_rtts_ms`, unless a burst has no others.
    """

    def __init__(self, results: EchoResults, sizes: int, family: int = 4, under_load: Bools | None = None) -> None:
        def by_size(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
            return values.reshape(len(values), sizes, -1)

        self._family = family
        started_at_ns = _first(by_size(results.sent_at_ns), by_size(results.sent))
        self.started_at_ns: Counts = started_at_ns.tolist()
        self._loaded: dict[tuple[int, int], tuple[float | None, ...]] = {}
        if under_load is not None and under_load.any():
            results = self._without(results, by_size(under_load), by_size(results.sent))
        self._sent = by_size(results.sent)
        rtt_ms = by_size(results.rtt_ms)
        in_time = ~np.isnan(rtt_ms)
        received = in_time.sum(axis=2)
        sent = self._sent.sum(axis=2)
        hop_limit = by_size(results.hop_limit)
        stamps_lost = (in_time & ~by_size(results.kernel_stamped)).sum(axis=2)
        hardware = np.all(by_size(results.hardware_stamped) | ~in_time, axis=2)
        refused_errno = by_size(results.refused_errno)
        # Arrays of shape (targets, sizes); `ttl` and `stamp`, an index in `STAMPS`, are -1 without a reply in time.
        self.arrays: dict[str, npt.NDArray[Any]] = {
            "started_us": started_at_ns // 1000,
            "sent": sent,
            "received": received,
            "late": by_size(results.late).sum(axis=2),
            "waited": by_size(results.waited & results.sent).sum(axis=2),
            "duplicates": np.maximum(by_size(results.replies) - 1, 0).sum(axis=2),
            "reordered": reordered(by_size(results.arrived_ns), in_time),
            "ttl": np.where(received > 0, _first(hop_limit, in_time), -1),
            "ttl_changes": changes(hop_limit, in_time & (hop_limit >= 0)),
            "stamps_lost": stamps_lost,
            "stamp": np.where(
                received == 0, -1, np.where(stamps_lost > 0, STAMPS.index("user"), np.where(hardware, HARDWARE, KERNEL))
            ),
        }
        self.rtt_ms = rtt_ms
        self.sent: Counts = sent.tolist()
        self.received: Counts = received.tolist()
        self.ttl_changes: Counts = self.arrays["ttl_changes"].tolist()
        self.refused_errno: Counts = _first(refused_errno, refused_errno != 0).tolist()
        self._errors = self._group_errors(results, len(rtt_ms[0, 0]) if len(rtt_ms) else 1)

    def _without(self, results: EchoResults, under_load: Bools, sent: Bools) -> EchoResults:
        """Remove packets under load and keep their RTTs, except in bursts without others."""
        whole = (under_load == sent).all(axis=2) & sent.any(axis=2)
        for row, column in np.argwhere(whole).tolist():
            self._loaded[row, column] = ()
        apart = under_load & ~whole[..., np.newaxis]
        rtt_ms = results.rtt_ms.reshape(sent.shape).round(6)
        for row, column in np.argwhere(apart.any(axis=2)).tolist():
            rtts_ms = rtt_ms[row, column][apart[row, column]].tolist()
            self._loaded[row, column] = tuple(None if math.isnan(rtt) else rtt for rtt in rtts_ms)
        left_out = apart.reshape(results.sent.shape)
        about = results.errors
        counted = ~left_out[about.target, about.turn]
        return replace(
            results,
            sent=results.sent & ~left_out,
            rtt_ms=np.where(left_out, np.nan, results.rtt_ms),
            late=results.late & ~left_out,
            replies=np.where(left_out, 0, results.replies),
            errors=EchoErrors(*(getattr(about, column.name)[counted] for column in fields(about))),
        )

    def _group_errors(self, results: EchoResults, count: int) -> dict[tuple[int, int], list[IcmpError]]:
        """Count identical ICMP errors of each burst, without those about answered requests."""
        errors = results.errors
        grouped: dict[tuple[int, int], list[IcmpError]] = defaultdict(list)
        lost = np.isnan(results.rtt_ms[errors.target, errors.turn])
        if not lost.any():
            return grouped
        about = (errors.target, errors.turn // count, errors.icmp_type, errors.icmp_code, errors.mtu_bytes)
        table = np.column_stack((*about, errors.router.astype(np.int64)))[lost]
        kinds, counts = np.unique(table, axis=0, return_counts=True)
        for kind, times in zip(kinds.tolist(), counts.tolist(), strict=True):
            target, size, icmp_type, icmp_code, mtu_bytes, *router = kind
            grouped[target, size].append(
                IcmpError(
                    name=name_of(self._family, icmp_type, icmp_code),
                    icmp_type=icmp_type,
                    icmp_code=icmp_code,
                    router=socket.inet_ntop(FAMILY[self._family], bytes(router)),
                    count=times,
                    mtu_bytes=mtu_bytes or None,
                )
            )
        return grouped

    @property
    def has_only_numbers(self) -> Bools:
        """Bursts without ICMP errors, refusals or load; shape (targets, sizes)."""
        sent: Int64s = self.arrays["sent"]
        plain: Bools = (sent > 0) & (sent == self.rtt_ms.shape[2])
        for row, column in (*self._errors, *self._loaded):
            plain[row, column] = False
        return plain

    def fields(self, row: int, column: int) -> dict[str, Any]:
        return {
            "started_at": EPOCH + timedelta(microseconds=self.started_at_ns[row][column] // 1000),
            **{name: int(self.arrays[name][row, column]) for name in COUNTED},
            "rtts_ms": self.rtts_ms(row, column),
            "loaded_rtts_ms": self.loaded_rtts_ms(row, column),
            "stamp": self.stamp(row, column),
        }

    def rtts_ms(self, row: int, column: int) -> tuple[float | None, ...]:
        """RTT of each request sent; None if lost."""
        rtts_ms: list[float] = np.round(self.rtt_ms[row, column], 6).tolist()
        if self.received[row][column] == len(rtts_ms):
            return tuple(rtts_ms)
        if self.sent[row][column] < len(rtts_ms):
            rtts_ms = [rtt for rtt, sent in zip(rtts_ms, self._sent[row, column].tolist(), strict=True) if sent]
        return tuple(None if math.isnan(rtt) else rtt for rtt in rtts_ms)

    def loaded_rtts_ms(self, row: int, column: int) -> tuple[float | None, ...] | None:
        """RTTs under load; empty if the burst has no others, None without."""
        return self._loaded.get((row, column))

    def ttl(self, row: int, column: int) -> int | None:
        """Remaining TTL of the first reply in time."""
        ttl = int(self.arrays["ttl"][row, column])
        return None if ttl < 0 else ttl

    def stamp(self, row: int, column: int) -> Stamp | None:
        """The least accurate timestamp source among the RTTs."""
        stamp = int(self.arrays["stamp"][row, column])
        return None if stamp < 0 else STAMPS[stamp]

    def errors(self, row: int, column: int) -> tuple[IcmpError, ...]:
        """ICMP errors about a burst, the most frequent if many."""
        errors = self._errors.get((row, column), ())
        return tuple(sorted(errors, key=lambda error: -error.count)[:MAX_ICMP_ERRORS])


def sent_under_load(results: EchoResults, rows: Sequence[Sequence[int]], loads: LoadedPeriods) -> Bools:
    """Mark packets sent while our tests loaded their path; `rows` has target indexes."""
    within = sent_within(results, loads.here)
    if loads.there:
        for row, members in enumerate(rows):
            periods = [period for index in members for period in loads.there.get(index, ())]
            within[row] |= _within(results.sent_at_ns[row], results.sent[row], periods)
    return within


def sent_within(results: EchoResults, periods: Sequence[LoadPeriod]) -> Bools:
    """Mark packets sent in any of these periods."""
    return _within(results.sent_at_ns, results.sent, periods)


def _within(times_ns: Int64s, sent: Bools, periods: Sequence[LoadPeriod]) -> Bools:
    within = np.zeros_like(sent)
    if not periods or not sent.any():
        return within
    first_ns, last_ns = times_ns[sent].min(), times_ns.max()
    for since, until in periods:
        since_ns, until_ns = _nanoseconds(since), _nanoseconds(until)
        if since_ns <= last_ns and until_ns >= first_ns:
            within |= (times_ns >= since_ns) & (times_ns <= until_ns)
    return within & sent


def _nanoseconds(at: datetime) -> int:
    return (at - EPOCH) // MICROSECOND * 1000


def reordered(arrived_ns: Int64s, in_time: Bools) -> Int64s:
    """Count replies after a later request's (RFC 4737, section 3.3), along the last axis."""
    arrived_ns = np.where(in_time, arrived_ns, np.iinfo(np.int64).max)
    order = np.argsort(arrived_ns, axis=-1, kind="stable")
    arrived = np.take_along_axis(in_time, order, axis=-1)
    overtaken = order < np.maximum.accumulate(order, axis=-1)
    counts: Int64s = (overtaken & arrived).sum(axis=-1)
    return counts


def changes(values: npt.NDArray[Any], valid: Bools) -> Int64s:
    """Count valid values that differ from the previous, along the last axis."""
    place = np.where(valid, np.arange(values.shape[-1]), 0)
    before = np.maximum.accumulate(place, axis=-1)
    former = np.take_along_axis(values, before[..., :-1], axis=-1)
    comparable = valid[..., 1:] & np.logical_or.accumulate(valid, axis=-1)[..., :-1]
    counts: Int64s = (comparable & (values[..., 1:] != former)).sum(axis=-1)
    return counts


def _first(values: npt.NDArray[Scalar], where: Bools) -> npt.NDArray[Scalar]:
    """Value at the first true `where` along the last axis, else the first."""
    return np.take_along_axis(values, where.argmax(axis=-1)[..., np.newaxis], axis=-1)[..., 0]
