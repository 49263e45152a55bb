"""`manage.py estimate`: expected throughput of a TCP transfer and its bottleneck. Exit status: 0 done, 1 no estimate, 2
usage."""

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
    LOSS_SOURCES,
    NAME_OF_FIGURE,
    CongestionControl,
    FigureError,
    Loss,
    Rtt,
    Sign,
    SpeedUp,
    ThroughputEstimate,
    TransferSettings,
    estimate,
    from_typed,
    needs,
    wording,
)
from monitor.analysis.tcp.moving import moving_time, moving_words, parse_size
from probes.commands.subcommands import ratio

PIPE_COLUMNS = 120


class Command(BaseCommand):
    help = "Estimate TCP throughput from RTT, loss and limits. See docs/estimate.md."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        path = parser.add_argument_group("the path")
        path.add_argument("--rtt-ms", type=_number, required=True, help="median RTT in ms")
        path.add_argument("--rtt-p10-ms", type=_number, help="10th percentile RTT in ms, for the interval")
        path.add_argument("--rtt-p90-ms", type=_number, help="90th percentile RTT in ms, for the interval")
        path.add_argument("--loss-ratio", type=ratio, required=True, help="packet loss ratio, 0 to 1: 0.01 is 1%%")
        path.add_argument(
            "--loss-from",
            choices=LOSS_SOURCES,
            help="; ".join(f"{name}: {label}" for name, label in LOSS_SOURCES.items()) + "; required above 0",
        )
        path.add_argument("--sent", type=int, help="sample size of the loss in packets; without it, loss is exact")
        path.add_argument("--capacity-mbps", type=_number, help="path capacity, Mbit/s of TCP payload")
        sender = parser.add_argument_group("the transfer")
        sender.add_argument("--mss-bytes", type=_number, required=True, help="MSS in bytes; 1460 on Ethernet")
        sender.add_argument("--window-bytes", type=_number, help="maximum window (socket buffer) of each stream, bytes")
        sender.add_argument(
            "--cc",
            choices=[control.value for control in CongestionControl],
            default=CongestionControl.CUBIC.value,
            help="congestion control of the sender (default cubic)",
        )
        sender.add_argument("--streams", type=int, default=1, help="parallel streams (default 1)")
        parser.add_argument(
            "--times", type=_number, default=2.0, help="show what multiplies throughput by this (default 2)"
        )
        parser.add_argument(
            "--move", metavar="SIZE", help="time to move this much, as 5TB, and settings that shorten it"
        )
        parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")

    def handle(self, *args: Any, as_json: bool, **options: Any) -> None:
        try:
            rtt, loss, transfer = from_typed(options)
            answer = estimate(rtt, loss, transfer, options["times"])
            move_bytes = None if options["move"] is None else parse_size(options["move"])
        except FigureError as error:
            _refuse(error, options)
        if as_json:
            moving = None if move_bytes is None else moving_time(move_bytes, answer)
            moved = {} if moving is None else {"move": asdict(moving)}
            self.stdout.write(json.dumps(_as_json(rtt, loss, transfer, answer) | moved))
        else:
            # A pipe has no width, so lines are not wrapped.
            width = None if self.stdout.isatty() else PIPE_COLUMNS
            console = Console(file=cast("IO[str]", self.stdout), width=width, highlight=False)
            _print(console, rtt, loss, transfer, answer)
            for line in [] if move_bytes is None else ["", *moving_words(move_bytes, answer, rtt, transfer)]:
                console.print(line)
        if answer.sign is None:
            raise CommandError(
                "no estimate: no loss of packets and no other limit given; give --window-bytes or --capacity-mbps"
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
    name = NAME_OF_FIGURE.get(error.name, error.name)
    option, typed = f"--{name.replace('_', '-')}", options[name]
    if typed is None:
        raise CommandError(f"{option}: {error.wanted}", returncode=2) from error
    if isinstance(typed, str):
        raise CommandError(f"{option} {typed}: {error.wanted}", returncode=2) from error
    raise CommandError(f"{option} {typed:g}: {error.wanted}", returncode=2) from error


def _as_json(rtt: Rtt, loss: Loss, transfer: TransferSettings, answer: ThroughputEstimate) -> dict[str, Any]:
    given = {
        "rtt_ms": rtt.median_ms,
        "rtt_p10_ms": rtt.p10_ms,
        "rtt_p90_ms": rtt.p90_ms,
        "loss_ratio": loss.ratio,
        "loss_is_retransmits": loss.is_retransmits,
        "sent": loss.sent,
        **{name: value for name, value in asdict(transfer).items() if name != "is_bbr"},
    }
    requirements = needs(rtt, transfer, answer)
    return {"given": given, **asdict(answer), "at_this_rate": None if requirements is None else asdict(requirements)}


def _print(console: Console, rtt: Rtt, loss: Loss, transfer: TransferSettings, answer: ThroughputEstimate) -> None:
    console.print(wording.headline(answer), style="bold")
    for note in wording.notes(loss, answer):
        console.print(note)
    console.print()
    console.print(_limit_table(rtt, loss, transfer, answer))
    if answer.advice is not None:
        console.print()
        console.print(f"To multiply it by {answer.advice.times:g}, to {wording.rate(answer.advice.target_bps)}:")
        console.print(_advice_table(answer.advice, loss, transfer))
    requirements = needs(rtt, transfer, answer)
    if requirements is not None:
        console.print(f"\n{wording.at_this_rate(requirements)}")


def _limit_table(rtt: Rtt, loss: Loss, transfer: TransferSettings, answer: ThroughputEstimate) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("limit")
    table.add_column("throughput", justify="right")
    table.add_column("80% interval", justify="right")
    table.add_column("from")
    for limit in answer.limits:
        is_range = limit.sign is Sign.ABOUT and limit.low_bps != limit.high_bps
        interval = wording.interval(limit.low_bps, limit.high_bps, "{}") if is_range else ""
        table.add_row(
            limit.name,
            wording.signed(limit.throughput_bps, limit.sign),
            interval,
            wording.ground(limit.name, rtt, loss, transfer),
        )
    index = wording.signed(answer.reno_index_bps, answer.reno_index_sign)
    table.add_row("Mathis (Reno) index", index, "", "Mathis, C = 1, one stream: for comparison only")
    return table


def _advice_table(advice: SpeedUp, loss: Loss, transfer: TransferSettings) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for what, wanted, now in wording.advice_rows(advice, loss, transfer):
        table.add_row(f"  {what}", wanted, now)
    return table
