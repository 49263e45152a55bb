"""`manage.py estimate`: what a TCP transfer gets with the figures typed in, what holds it, and what would give more.

Exit status: 0 done, 1 no estimate from these figures, 2 usage. Needs no database.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict
from typing import IO, Any, NoReturn, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.table import Table

from monitor.analysis.tcp import (
    NAME_OF_FIGURE,
    Advice,
    CongestionControl,
    Estimate,
    FigureError,
    Loss,
    Rtt,
    Sign,
    Transfer,
    estimate,
    from_typed,
    needs,
    wording,
)

PIPE_COLUMNS = 120


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
            rtt, loss, transfer = from_typed(options)
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


def _refuse(error: FigureError, options: dict[str, Any]) -> NoReturn:
    """The message in the words and the units of the command line."""
    name = NAME_OF_FIGURE.get(error.name, error.name)
    option, typed = f"--{name.replace('_', '-')}", options[name]
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
    asked = needs(rtt, transfer, found)
    return {"given": given, **asdict(found), "at_this_rate": None if asked is None else asdict(asked)}


def _print(console: Console, rtt: Rtt, loss: Loss, transfer: Transfer, found: Estimate) -> None:
    console.print(wording.headline(found), style="bold")
    for note in wording.notes(loss, found):
        console.print(note)
    console.print()
    console.print(_limit_table(rtt, loss, transfer, found))
    if found.advice is not None:
        console.print()
        console.print(f"For {found.advice.times:g} times as much, {wording.rate(found.advice.target_bps)}:")
        console.print(_advice_table(found.advice, loss, transfer))
    asked = needs(rtt, transfer, found)
    if asked is not None:
        console.print(f"\n{wording.at_this_rate(asked)}")


def _limit_table(rtt: Rtt, loss: Loss, transfer: Transfer, found: Estimate) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("limit")
    table.add_column("throughput", justify="right")
    table.add_column("80% interval", justify="right")
    table.add_column("from")
    for limit in found.limits:
        is_range = limit.sign is Sign.ABOUT and limit.low_bps != limit.high_bps
        interval = wording.interval(limit.low_bps, limit.high_bps, "{}") if is_range else ""
        table.add_row(
            limit.name,
            wording.signed(limit.throughput_bps, limit.sign),
            interval,
            wording.ground(limit.name, rtt, loss, transfer),
        )
    index = wording.signed(found.reno_index_bps, found.reno_index_sign)
    table.add_row("Reno index", index, "", "Mathis, C = 1, one stream: compares paths, is no estimate")
    return table


def _advice_table(advice: Advice, loss: Loss, transfer: Transfer) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for what, wanted, now in wording.advice_rows(advice, loss, transfer):
        table.add_row(f"  {what}", wanted, now)
    return table
