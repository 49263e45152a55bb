"""`manage.py estimate`: what a TCP transfer gets with the figures typed in, what holds it, and what would give more.

Exit status: 0 done, 1 no estimate from these figures, 2 usage. Needs no database.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from typing import IO, Any, NoReturn, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.table import Table

from monitor.analysis import figures
from monitor.analysis.tcp import (
    Advice,
    CongestionControl,
    Estimate,
    FigureError,
    LimitName,
    Loss,
    Rtt,
    Sign,
    Transfer,
    buffer_bytes,
    estimate,
    recovery_s,
    slow_start_s,
)

PIPE_COLUMNS = 120

OPTIONS = {"capacity_bps": "--capacity-mbps", "control": "--cc"}
"""Options that are not named as the figure that they give."""


class Command(BaseCommand):
    help = "Estimate the throughput of a TCP transfer from its path's figures. docs/estimate.md explains the answer."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        path = parser.add_argument_group("the path")
        path.add_argument("--rtt-ms", type=_number, required=True, help="median round trip, milliseconds")
        path.add_argument("--rtt-p10-ms", type=_number, help="its 10th percentile, for the interval")
        path.add_argument("--rtt-p90-ms", type=_number, help="its 90th percentile, for the interval")
        path.add_argument("--loss-ratio", type=_number, required=True, help="lost/sent, from 0 to 1")
        path.add_argument("--sent", type=int, help="packets the loss was counted on; without it, it is taken as exact")
        path.add_argument("--capacity-mbps", type=_number, help="what the path can carry, Mbit/s of TCP payload")
        sender = parser.add_argument_group("the transfer")
        sender.add_argument("--mss-bytes", type=_number, required=True, help="payload of a segment; 1460 on Ethernet")
        sender.add_argument("--window-bytes", type=_number, help="largest window (socket buffer) of each stream")
        sender.add_argument(
            "--cc",
            choices=[control.value for control in CongestionControl],
            default=CongestionControl.CUBIC.value,
            help="congestion control of the sender (default cubic, as most run)",
        )
        sender.add_argument("--streams", type=int, default=1, help="transfers side by side (default 1)")
        parser.add_argument("--times", type=_number, default=2.0, help="say what gives so many times more (default 2)")
        parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")

    def handle(self, *args: Any, as_json: bool, **options: Any) -> None:
        try:
            rtt, loss, transfer = _figures(options)
            found = estimate(rtt, loss, transfer, options["times"])
        except FigureError as error:
            _refuse(error, options)
        if as_json:
            self.stdout.write(json.dumps(_as_json(rtt, loss, transfer, found)))
        else:
            # A pipe has no width: nothing is to be folded there.
            width = None if self.stdout.isatty() else PIPE_COLUMNS
            console = Console(file=cast("IO[str]", self.stdout), width=width, highlight=False)
            _print(console, rtt, loss, transfer, found)
        if found.sign is None:
            raise CommandError(
                "no estimate: a loss of 0 does not limit, and nothing else is known; give --window-bytes, "
                "--capacity-mbps, or with --sent how many packets the loss was counted on"
            )


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f'"{text}" is not a number; write it as in 0.5, 100 or 1e-4')
    return number


def _figures(options: dict[str, Any]) -> tuple[Rtt, Loss, Transfer]:
    loss_ratio, sent, capacity_mbps = options["loss_ratio"], options["sent"], options["capacity_mbps"]
    return (
        Rtt(options["rtt_ms"], options["rtt_p10_ms"], options["rtt_p90_ms"]),
        Loss(loss_ratio) if sent is None else Loss.of_sent(loss_ratio, sent),
        Transfer(
            mss_bytes=options["mss_bytes"],
            window_bytes=options["window_bytes"],
            capacity_bps=None if capacity_mbps is None else capacity_mbps * 1e6,
            control=CongestionControl(options["cc"]),
            streams=options["streams"],
        ),
    )


def _refuse(error: FigureError, options: dict[str, Any]) -> NoReturn:
    """The message in the words and the units of the command line."""
    option = OPTIONS.get(error.name, f"--{error.name.replace('_', '-')}")
    typed = options[option.removeprefix("--").replace("-", "_")]
    raise CommandError(f"{option} {typed:g}: {error.wanted}", returncode=2) from error


def _as_json(rtt: Rtt, loss: Loss, transfer: Transfer, found: Estimate) -> dict[str, Any]:
    given = {
        "rtt_ms": rtt.median_ms,
        "rtt_p10_ms": rtt.p10_ms,
        "rtt_p90_ms": rtt.p90_ms,
        "loss_ratio": loss.ratio,
        "sent": loss.sent,
        **asdict(transfer),
    }
    return {"given": given, **asdict(found), "at_this_rate": _needs(rtt, transfer, found)}


def _needs(rtt: Rtt, transfer: Transfer, found: Estimate) -> dict[str, float] | None:
    """What the estimated rate asks of each stream; None for a mere bound of a loss that was not seen."""
    if found.advice is None or found.throughput_bps is None:
        return None
    stream_bps = found.throughput_bps / transfer.streams
    return {
        "buffer_bytes": float(buffer_bytes(stream_bps, rtt.median_ms)),
        "slow_start_s": float(slow_start_s(stream_bps, rtt.median_ms, transfer.mss_bytes)),
        "recovery_s": float(recovery_s(transfer.control, stream_bps, rtt.median_ms, transfer.mss_bytes)),
    }


def _print(console: Console, rtt: Rtt, loss: Loss, transfer: Transfer, found: Estimate) -> None:
    console.print(_headline(found), style="bold")
    for note in _notes(loss, found):
        console.print(note)
    console.print()
    console.print(_limit_table(rtt, loss, transfer, found))
    if found.advice is not None:
        console.print()
        console.print(f"For {found.advice.times:g} times as much, {_rate(found.advice.target_bps)}:")
        console.print(_advice_table(found.advice, loss, transfer))
    needs = _needs(rtt, transfer, found)
    if needs is not None:
        console.print(
            f"\nAt this rate each stream needs a buffer of {_size(needs['buffer_bytes'])}, starts in "
            f"{_time(needs['slow_start_s'])} and is back after a loss in {_time(needs['recovery_s'])}."
        )


def _headline(found: Estimate) -> str:
    if found.sign is None:
        return "no estimate"
    if found.throughput_bps is None:
        return f"between {_rate(found.low_bps)} and {_rate(found.high_bps)}"
    if found.throughput_bps == 0.0:
        return "0 bit/s: every packet is lost"
    if found.sign is Sign.AT_LEAST:
        return f"at least {_rate(found.throughput_bps)}, as far as loss goes"
    held = "" if found.binding is None else f", limited by {found.binding}"
    return f"{found.sign} {_rate(found.throughput_bps)}{held}{_interval(found.low_bps, found.high_bps, ' (80%: {})')}"


def _notes(loss: Loss, found: Estimate) -> list[str]:
    notes = []
    if found.not_known and found.throughput_bps:
        notes.append(f"Not known: {' and '.join(found.not_known)}, which may hold it lower.")
    if loss.none_of_some:
        notes.append(f"No loss was seen; it is taken at its 95% bound, {_loss(loss.bound_ratio)}.")
    if loss.all_of_some:
        notes.append(f"Every packet was lost; the loss is taken at its 95% bound, {_loss(loss.bound_ratio)}.")
    if found.packets_to_tell is not None:
        notes.append(
            f"Whether loss limits cannot be told yet: that takes {figures.count(found.packets_to_tell)} packets "
            "without a loss."
        )
    return notes


def _limit_table(rtt: Rtt, loss: Loss, transfer: Transfer, found: Estimate) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("limit")
    table.add_column("throughput", justify="right")
    table.add_column("80% interval", justify="right")
    table.add_column("from")
    for limit in found.limits:
        is_range = limit.sign is Sign.ABOUT and limit.low_bps != limit.high_bps
        interval = _interval(limit.low_bps, limit.high_bps, "{}") if is_range else ""
        table.add_row(
            limit.name, _signed(limit.throughput_bps, limit.sign), interval, _ground(limit.name, rtt, loss, transfer)
        )
    index = _signed(found.reno_index_bps, found.reno_index_sign)
    table.add_row("Reno index", index, "", "Mathis, C = 1, one stream: compares paths, is no estimate")
    return table


def _ground(name: LimitName, rtt: Rtt, loss: Loss, transfer: Transfer) -> str:
    streams = "" if transfer.streams == 1 else f" × {transfer.streams} streams"
    if name is LimitName.WINDOW:
        return f"{_size(transfer.window_bytes or 0.0)} each {figures.milliseconds(rtt.median_ms)}{streams}"
    if name is LimitName.CAPACITY:
        return "given"
    if loss.sent is None or loss.lost is None:
        return f"{transfer.control} at a loss of {_loss(loss.ratio)}{streams}"
    counts = f"{figures.count(loss.lost)} of {figures.count(loss.sent)} lost"
    return f"{transfer.control}, {counts} ({figures.loss(loss.lost, loss.sent)}){streams}"


def _advice_table(advice: Advice, loss: Loss, transfer: Transfer) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    if advice.window_bytes is not None:
        table.add_row("  window", f"at least {_size(advice.window_bytes)}", _now(_size, transfer.window_bytes))
    if advice.loss_ratio is not None:
        table.add_row("  loss", f"at most {_loss(advice.loss_ratio)}", f"now {_loss(loss.ratio)}")
    if advice.capacity_bps is not None:
        table.add_row("  capacity", f"at least {_rate(advice.capacity_bps)}", _now(_rate, transfer.capacity_bps))
    if advice.streams is not None:
        row = (f"{figures.count(advice.streams)}", f"now {figures.count(transfer.streams)}{_in_place_of(advice)}")
        table.add_row("  streams", *row)
    return table


def _in_place_of(advice: Advice) -> str:
    """What need not change when there are more streams."""
    spared = (LimitName.WINDOW, advice.window_bytes), (LimitName.LOSS, advice.loss_ratio)
    names = [name for name, wanted in spared if wanted is not None]
    return f"; in place of {' and '.join(names)}" if names else ""


def _now(written: Callable[[float], str], value: float | None) -> str:
    return "not known now" if value is None else f"now {written(value)}"


def _signed(rate_bps: float | None, sign: Sign | None) -> str:
    if rate_bps is None or sign is None:
        return "none"
    mark = {Sign.AT_LEAST: "≥ ", Sign.AT_MOST: "≤ "}.get(sign, "")
    return f"{mark}{_rate(rate_bps)}"


def _interval(low_bps: float | None, high_bps: float | None, form: str) -> str:
    if low_bps is None or high_bps is None or low_bps == high_bps:
        return ""
    return form.format(f"{_rate(low_bps)} to {_rate(high_bps)}")


def _rate(value_bps: float | None) -> str:
    return "0 bit/s" if value_bps == 0.0 else figures.bit_rate(value_bps)


def _loss(ratio: float) -> str:
    """Percent, and powers of ten where the noughts can no longer be counted."""
    return figures.percent(ratio) if ratio == 0.0 or ratio >= 1e-6 else f"{ratio:.1e} (a ratio)"


def _size(size_bytes: float) -> str:
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.3g} {unit}"
    return f"{size_bytes:.3g} bytes"


def _time(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10.0 else figures.duration(seconds)
