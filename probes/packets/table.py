"""Bursts in a terminal: a table with a row for each, or a JSON object for each."""

from __future__ import annotations

import ipaddress
import shutil
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Any

import msgspec

from probes.contract import Outcome
from probes.packets.burst import summary
from probes.packets.spec import Burst

PIPE_COLUMNS = 200
HEADINGS = ("bytes", "lost", "min ms", "median", "average", "max", "IPDV")
COLUMNS = (5, 15, 7, 7, 7, 7, 7)
ADDRESS_COLUMNS = len(" (255.255.255.255)")


def width() -> int:
    """Terminal columns; `PIPE_COLUMNS` for a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_COLUMNS


def as_json(burst: Burst) -> dict[str, Any]:
    derived = summary(burst)
    return {
        "target": burst.target,
        "address": burst.address,
        "family": burst.family,
        "packet_bytes": burst.packet_bytes,
        "started_at": burst.started_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "outcome": burst.outcome.value,
        "sent": burst.sent,
        "received": burst.received,
        "late": burst.late,
        "duplicates": burst.duplicates,
        "reordered": burst.reordered,
        "loss_ratio": derived["loss_ratio"],
        "rtts_ms": list(burst.rtts_ms),
        **{name: value for name, value in derived.items() if name != "loss_ratio"},
        "ttl": burst.ttl,
        "ttl_changes": burst.ttl_changes,
        "errors": msgspec.to_builtins(burst.errors),
        "path_mtu_bytes": burst.path_mtu_bytes,
        "rate_limited": burst.rate_limited,
        "flow": burst.flow,
        "source_address": burst.source_address,
        "stamp": burst.stamp,
        "stamps_lost": burst.stamps_lost,
        "clock_source": burst.clock_source,
        "waited": burst.waited,
        "detail": burst.detail,
    }


def loss_text(burst: Burst) -> str:
    """Format lost of sent; for none, the upper bound 3/N (95% confidence)."""
    if burst.outcome is not Outcome.MEASURED:
        return "not measured"
    lost = burst.sent - burst.received
    percent = f"< {100 * min(3 / burst.sent, 1):.3g}%" if lost == 0 else f"{100 * lost / burst.sent:.3g}%"
    return f"{lost} of {burst.sent} ({percent})"


class PingTable:
    """A table in columns of fixed width, with the header before the first row."""

    def __init__(self, hosts: Sequence[str], width: int) -> None:
        names = [len(host) + (0 if _is_address(host) else ADDRESS_COLUMNS) for host in hosts]
        self._host_columns = max(len("host"), min(max(names), width - len(_cells("", *HEADINGS))))
        self._has_header = False

    def lines(self, bursts: Sequence[Burst]) -> Iterator[str]:
        """Rows of these bursts, and remarks below."""
        if not self._has_header:
            self._has_header = True
            yield _cells("host".ljust(self._host_columns), *HEADINGS)
        above = ""
        for burst in bursts:
            host = burst.target if burst.address in (None, burst.target) else f"{burst.target} ({burst.address})"
            if len(host) > self._host_columns:
                if host != above:
                    yield host
                above, host = host, ""
            yield _cells(host.ljust(self._host_columns), *_row(burst))
        yield from _notes(tuple(bursts))


def _cells(host: str, *cells: str) -> str:
    return "  ".join([host, *(cell.rjust(columns) for cell, columns in zip(cells, COLUMNS, strict=True))])


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _row(burst: Burst) -> list[str]:
    derived = summary(burst)
    names = ("rtt_min_ms", "rtt_median_ms", "rtt_avg_ms", "rtt_max_ms", "ipdv_ms")
    return [str(burst.packet_bytes), loss_text(burst), *(_ms(derived[name]) for name in names)]


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _notes(bursts: tuple[Burst, ...]) -> list[str]:
    sizes = dict.fromkeys(burst.packet_bytes for burst in bursts)
    about: dict[tuple[str, str], dict[int, None]] = {}
    for burst in bursts:
        for remark in _remarks(burst):
            about.setdefault((burst.target, remark), {})[burst.packet_bytes] = None
    return [
        f"{target}: {remark}" if of_sizes == sizes else f"{target}, {' and '.join(map(str, of_sizes))} bytes: {remark}"
        for (target, remark), of_sizes in about.items()
    ]


def _remarks(burst: Burst) -> list[str]:
    if burst.outcome is not Outcome.MEASURED:
        return [f"{burst.outcome.value}: {burst.detail}"]
    counted = {
        "late (reply after the timeout)": burst.late,
        "duplicated": burst.duplicates,
        "out of order": burst.reordered,
        "TTL changes": burst.ttl_changes,
        "delayed by a full send buffer": burst.waited,
    }
    remarks = [f"{count} {event}" for event, count in counted.items() if count]
    remarks += [error.text for error in burst.errors]
    if burst.path_mtu_bytes is not None:
        remarks.append(f"path MTU {burst.path_mtu_bytes} bytes")
    if burst.rate_limited:
        remarks.append("loss grows with our request rate: ICMP is rate-limited; not a measure of path loss")
    if burst.stamps_lost:
        remarks.append(f"{burst.stamps_lost} kernel timestamps missing")
    if burst.detail is not None:
        remarks.append(burst.detail)
    return remarks
