"""Time to move bytes at an estimated throughput, and settings that shorten it. Disks are not considered."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from monitor.analysis import figures
from monitor.analysis.tcp.figures import FigureError, LimitName, Rtt, Sign, ThroughputEstimate, TransferSettings
from monitor.analysis.tcp.timing import buffer_bytes, streams_needed

BITS = 8.0
UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
BINARY_UNITS = {"k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40, "p": 2.0**50}
LARGEST_BYTES = 1e18
SIZE_WANTED = "write a size as in 5TB, 300GB or 1.5TiB"


@dataclass(frozen=True, slots=True)
class MovingTime:
    """Seconds; None at an open end."""

    size_bytes: float
    seconds: float | None
    sign: Sign  # of the time: a lower rate bound is an upper bound
    least_s: float | None
    most_s: float | None


def parse_size(text: str) -> float:
    """A size in bytes: 5TB is 5e12, 5TiB 5 × 2^40. Raises `FigureError`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?)b?\s*", text.lower())
    if match is None or (match[3] and not match[2]):
        raise FigureError("move", math.nan, SIZE_WANTED)
    size = float(match[1]) * (BINARY_UNITS if match[3] else UNITS)[match[2]]
    if not 1.0 <= size <= LARGEST_BYTES:
        raise FigureError("move", size, SIZE_WANTED)
    return size


def moving_time(size_bytes: float, answer: ThroughputEstimate) -> MovingTime | None:
    """The time at the estimated rate; None without an estimate."""
    if answer.sign is None:
        return None
    opposite = {Sign.AT_LEAST: Sign.AT_MOST, Sign.AT_MOST: Sign.AT_LEAST}
    return MovingTime(
        size_bytes,
        _seconds(size_bytes, answer.throughput_bps),
        opposite.get(answer.sign, answer.sign),
        _seconds(size_bytes, answer.high_bps),
        _seconds(size_bytes, answer.low_bps),
    )


def _seconds(size_bytes: float, rate_bps: float | None) -> float | None:
    return BITS * size_bytes / rate_bps if rate_bps else None


def moving_words(size_bytes: float, answer: ThroughputEstimate, rtt: Rtt, transfer: TransferSettings) -> list[str]:
    """The time with its interval, then the settings that shorten it; empty without an estimate."""
    time = moving_time(size_bytes, answer)
    if time is None:
        return []
    least, most = (None if end is None else figures.duration(end) for end in (time.least_s, time.most_s))
    interval = f" (80%: {least} to {most})" if least and most and least != most else ""
    if time.seconds is None:
        headline = f"{_size(size_bytes)}: between {least or 'any shorter time'} and {most or 'any longer time'}"
    else:
        bound = "" if answer.binding is None else f", limited by {answer.binding}"
        headline = f"{_size(size_bytes)}: {time.sign} {figures.duration(time.seconds)}{interval}{bound}"
    return [headline, *_settings(size_bytes, answer, rtt, transfer)]


def _settings(size_bytes: float, answer: ThroughputEstimate, rtt: Rtt, transfer: TransferSettings) -> list[str]:
    capacity_bps = transfer.capacity_bps
    if capacity_bps is None:
        return ["Give the capacity of the path for the settings that fill it."]
    if answer.throughput_bps is None or answer.binding is LimitName.CAPACITY:
        return ["The capacity binds: neither windows nor streams shorten it."] if answer.throughput_bps else []
    at_capacity = figures.duration(BITS * size_bytes / capacity_bps)
    streams = int(streams_needed(capacity_bps, answer.throughput_bps / transfer.streams))
    said = []
    if answer.binding is LimitName.WINDOW:
        needed = math.ceil(float(buffer_bytes(capacity_bps, rtt.median_ms, transfer.streams)))
        said.append(
            f"A window of {needed:,} bytes in each stream fills the capacity, if loss does not bind: set "
            f"net.core.rmem_max, net.core.wmem_max and the maximum of net.ipv4.tcp_rmem and tcp_wmem at both ends to "
            f"twice that, {2 * needed}."
        )
    said.append(f"{figures.count(streams)} parallel streams would fill it as well: {at_capacity} at the capacity.")
    if answer.binding is LimitName.LOSS:
        said.append("A larger MTU on all of the path (MSS 8,960 instead of 1,460) raises the limit by loss as well.")
    return said


def _size(size_bytes: float) -> str:
    for unit, scale in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.4g} {unit}"
    return f"{size_bytes:.0f} bytes"
