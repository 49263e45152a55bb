"""Limit of a disk-to-disk transfer, from the rates of the file, memory to memory (RFC 6349), and each disk alone. A
file far below the slowest part was limited by none alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from monitor.analysis.figures import bit_rate, percent

# Relative to the slowest part: results on the same path or disk differ as much within minutes.
REACHED = 0.75
# Parts slower than this times the slowest part are named with it.
HARDLY_FASTER = 1.25
# Relative to the memory-to-memory time: a longer transfer blames slow start only from a fifth of that time.
TOO_SHORT = 0.5
# Maximum share of a file in memory for a valid disk measurement.
CACHED = 0.05


class DiskLimit(StrEnum):
    NETWORK = "network"
    SENDERS_DISK = "sender's disk"
    RECEIVERS_DISK = "receiver's disk"
    NEITHER = "neither"
    UNDETERMINED = "undetermined"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskToDisk:
    """Rates of a disk-to-disk transfer, None where unknown."""

    disk_to_disk_bps: float
    memory_to_memory_bps: float | None
    read_bps: float | None
    write_bps: float | None
    read_cached_ratio: float | None = None  # share of the file in memory when measured; None counts as 0
    file_s: float | None = None  # of the file, with fsync
    memory_s: float | None = None  # of the transfer from memory to memory


@dataclass(frozen=True, slots=True)
class DiskFinding:
    """The limit, with its evidence in a sentence."""

    limit: DiskLimit
    sentence: str


ALONE = {
    DiskLimit.NETWORK: "the same streams carry {} from memory to memory",
    DiskLimit.SENDERS_DISK: "the sender's disk alone reads {}",
    DiskLimit.RECEIVERS_DISK: "the receiver's disk alone writes {}",
}


def network_or_disk(rates: DiskToDisk) -> DiskFinding:
    parts = _parts(rates)
    if not parts:
        return DiskFinding(DiskLimit.UNDETERMINED, "undetermined: no rate of the network or of a disk alone is known")
    slowest = min(parts, key=lambda limit: parts[limit])
    share = rates.disk_to_disk_bps / parts[slowest]
    unknown = _unknown(rates)
    if share >= REACHED:
        return DiskFinding(slowest, f"{slowest}: {_reached(rates, parts, slowest, share)}{unknown}")
    # Parts that alternate: each bit takes the sum of their times.
    in_turn_bps = 1.0 / sum(1.0 / rate_bps for rate_bps in parts.values())
    alternated = rates.disk_to_disk_bps >= REACHED * in_turn_bps
    doubt = unknown or ("" if alternated else _too_short(rates))
    if doubt:
        return DiskFinding(
            DiskLimit.UNDETERMINED,
            f"undetermined: {bit_rate(rates.disk_to_disk_bps)} from disk to disk, where {_all(parts)}{doubt}",
        )
    if alternated:
        reason = (
            f"reading, sending and writing alternated, which gives {bit_rate(in_turn_bps)}: use more streams or a"
            " larger file"
        )
    else:
        reason = "less than alternating would give: check the CPUs of the hosts and other use of the disks and the path"
    return DiskFinding(
        DiskLimit.NEITHER,
        f"neither: {bit_rate(rates.disk_to_disk_bps)} from disk to disk, {percent(share)} of the slowest part"
        f" alone; {_all(parts)}; {reason}",
    )


def _too_short(rates: DiskToDisk) -> str:
    if rates.file_s is None or rates.memory_s is None or rates.file_s >= TOO_SHORT * rates.memory_s:
        return ""
    return "; the file took less than half as long as memory to memory, too short to tell: use a larger file"


def _parts(rates: DiskToDisk) -> dict[DiskLimit, float]:
    """Rates of parts alone; a cached file gives none of its disk."""
    in_memory = (rates.read_cached_ratio or 0.0) > CACHED
    rates_bps = {
        DiskLimit.NETWORK: rates.memory_to_memory_bps,
        DiskLimit.SENDERS_DISK: None if in_memory else rates.read_bps,
        DiskLimit.RECEIVERS_DISK: rates.write_bps,
    }
    return {limit: rate_bps for limit, rate_bps in rates_bps.items() if rate_bps is not None and rate_bps > 0.0}


def _unknown(rates: DiskToDisk) -> str:
    cached = rates.read_cached_ratio or 0.0
    if cached > CACHED:
        return f"; the sender's disk is unknown: {percent(cached)} of its file was cached in memory"
    missing = [limit for limit in ALONE if limit not in _parts(rates)]
    return f"; rate alone unknown: {' and '.join(missing)}" if missing else ""


def _reached(rates: DiskToDisk, parts: dict[DiskLimit, float], slowest: DiskLimit, share: float) -> str:
    others = [limit for limit in parts if limit is not slowest]
    close = [limit for limit in others if parts[limit] <= HARDLY_FASTER * parts[slowest]]
    far = [limit for limit in others if limit not in close]
    text = f"{bit_rate(rates.disk_to_disk_bps)} from disk to disk, and {_rate_alone(slowest, parts)}"
    if share > HARDLY_FASTER:
        text += ", less than this transfer"
    if close:
        text += f"; little faster: {_list(close, parts)}"
    return text + (f"; {_list(far, parts)}" if far else "")


def _all(parts: dict[DiskLimit, float]) -> str:
    return _list(list(parts), parts)


def _list(limits: list[DiskLimit], parts: dict[DiskLimit, float]) -> str:
    return ", ".join(_rate_alone(limit, parts) for limit in limits)


def _rate_alone(limit: DiskLimit, parts: dict[DiskLimit, float]) -> str:
    return ALONE[limit].format(bit_rate(parts[limit]))
