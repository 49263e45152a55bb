"""The table of `python -m probes stamp`: a row for each complete host, and remarks below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from probes.contract import Outcome
from probes.packets.burst import summary
from probes.packets.table import loss_text
from probes.stamp.spec import StampBurst, StampDirection

HEADINGS = ("lost", "forward", "reverse", "RTT ms", "forward ms", "reverse ms", "PDV fwd", "PDV rev")
WIDTHS = (19, 7, 7, 9, 16, 16, 8, 8)
DIRECTIONS: tuple[Literal["forward", "reverse"], ...] = ("forward", "reverse")


class DirectionsTable:
    """Rows of fixed-width columns, with a header before the first."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._host_columns = max(len("host"), *map(len, hosts))
        self._has_header = False

    def lines(self, burst: StampBurst) -> Iterator[str]:
        if not self._has_header:
            self._has_header = True
            yield self._line("host", *HEADINGS)
        yield self._line(burst.target, *_cells(burst))
        for remark in _remarks(burst):
            yield f"{burst.target}: {remark}"

    def _line(self, host: str, *cells: str) -> str:
        padded = (cell.rjust(width) for cell, width in zip(cells, WIDTHS, strict=True))
        return "  ".join([host.ljust(self._host_columns), *padded])


def _cells(burst: StampBurst) -> list[str]:
    median_ms = summary(burst.path_burst)["rtt_median_ms"]
    return [
        loss_text(burst.path_burst),
        _count(burst.forward.lost),
        _count(burst.reverse.lost),
        _ms(median_ms),
        _interval(burst, "forward"),
        _interval(burst, "reverse"),
        _ms(_variation_ms(burst.forward)),
        _ms(_variation_ms(burst.reverse)),
    ]


def _count(count: int | None) -> str:
    return "–" if count is None else str(count)


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _interval(burst: StampBurst, direction: Literal["forward", "reverse"]) -> str:
    raw_ms = (burst.forward if direction == "forward" else burst.reverse).median_ms
    interval = burst.delay_interval_ms(direction, raw_ms)
    return "–" if interval is None else f"{interval[0]:.3f}–{interval[1]:.3f}"


def _variation_ms(direction: StampDirection) -> float | None:
    if direction.p95_ms is None or direction.min_ms is None:
        return None
    return direction.p95_ms - direction.min_ms


def _remarks(burst: StampBurst) -> list[str]:
    if burst.outcome is not Outcome.MEASURED:
        return [f"{burst.outcome.value}: {burst.detail}"]
    remarks = []
    if burst.sent and not burst.received and not burst.late and burst.detail is None:
        remarks.append(
            "no reply at all: does the reflector list the address of this host in --peer, with the same key (or none), "
            f"and do firewalls pass UDP port {burst.port}?"
        )
    if burst.is_stateful is False:
        remarks.append("the reflector does not count its replies, so the direction of a loss cannot be told")
    elif burst.undecided:
        remarks.append(f"{burst.undecided} lost in a direction that cannot be told")
    events = {
        "late (reply after the timeout)": burst.late,
        "duplicated forward": burst.forward.duplicates,
        "duplicated reverse": burst.reverse.duplicates,
        "out of order forward": burst.forward.reordered,
        "out of order reverse": burst.reverse.reordered,
    }
    remarks += [f"{count} {event}" for event, count in events.items() if count]
    if burst.forward.dscp not in (None, burst.dscp):
        remarks.append(f"packets sent with DSCP {burst.dscp} arrived with {burst.forward.dscp}")
    if burst.detail is not None:
        remarks.append(burst.detail)
    return remarks


def as_json(burst: StampBurst) -> dict[str, Any]:
    """Convert for `--json`, with loss and delay intervals."""
    # Fields with their default value too: a program should not have to know them.
    fields = {name: getattr(burst, name) for name in burst.__struct_fields__}
    plain: dict[str, Any] = msgspec.to_builtins(fields)
    for direction in DIRECTIONS:
        figures: StampDirection = getattr(burst, direction)
        interval = burst.delay_interval_ms(direction, figures.median_ms)
        plain[direction] = {name: getattr(figures, name) for name in figures.__struct_fields__} | {
            "median_interval_ms": None if interval is None else [round(bound_ms, 6) for bound_ms in interval]
        }
    plain["loss_ratio"] = summary(burst.path_burst)["loss_ratio"]
    return plain
