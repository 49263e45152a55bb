"""`manage.py throughput sweep SRC DST`: a heat map over window sizes and streams.

An interrupt cancels the tests not started and prints how to resume.
"""

from __future__ import annotations

import argparse
import getpass
import json
import re
from contextlib import AbstractContextManager, nullcontext
from typing import IO, Any, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from monitor.analysis import figures
from monitor.analysis.sweeps.sweet_spot import knees, lacking, plane_label, segment_remarks, sentences, window_label
from monitor.api.sweeps import sweep_out
from monitor.archive import throughput_sweeps
from monitor.archive.outcomes import outcome_words
from monitor.archive.throughput_sweeps import Sweep, SweepCellResult
from monitor.mesh.schedule.on_demand import OnDemandError, Settings, find_path
from probes.commands.own_command import MANAGE
from probes.quantities import counted

SUMMARY = "test a grid of window sizes and streams; show a heat map and the sweet spot"
EXIT_STATUS = "0 all tests have ended, 1 the sweep stopped before, 2 usage"

SCALES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
# Minimum share of the best rate, and the style of such a cell.
HEATS = ((0.9, "black on green"), (0.75, "black on yellow"), (0.5, "black on dark_orange"), (0.0, "white on red"))
PIPE_COLUMNS = 120


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("source", nargs="?", help="site or host that sends")
    parser.add_argument("destination", nargs="?", help="site or host that receives")
    grid = parser.add_argument_group("the grid; values separated by commas")
    grid.add_argument("--windows", type=_sizes, help="socket buffers, bytes, e.g. 262144 or 256K,4M (1K = 1024)")
    grid.add_argument("--streams", type=_numbers, help="parallel streams, e.g. 1,4,16")
    grid.add_argument(
        "--cc", type=_names, default=[], help="congestion controls, e.g. cubic,bbr (default: the system's)"
    )
    grid.add_argument("--mss", type=_numbers, default=[], help="MSS, bytes (default: the system's)")
    grid.add_argument(
        "--blocks", type=_sizes, default=[], help="length of each write, bytes, e.g. 8K,128K,1M (default: iperf3's)"
    )
    test = parser.add_argument_group("each test")
    test.add_argument("--duration-s", type=int, default=10, help="duration, s (default 10)")
    test.add_argument("--omit-s", type=int, default=0, help="warm-up before it that is not counted, s (default 0)")
    test.add_argument("--family", type=int, choices=(4, 6), help="address family of the path")
    parser.add_argument("--name", help="name of the sweep")
    parser.add_argument("--resume", type=int, metavar="NUMBER", help="resume a stopped sweep")
    parser.add_argument("--retry", action="store_true", help="with --resume: repeat failed tests")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object at the end")


def run(command: BaseCommand, options: dict[str, Any]) -> None:
    """Raises `OnDemandError`, and `CommandError` (exit status 2: invalid options)."""
    sweep_id = _resumed(options) if options["resume"] is not None else _created(options)
    console = Console(file=cast("IO[str]", command.stdout))
    if not console.is_terminal:
        console = Console(file=cast("IO[str]", command.stdout), width=PIPE_COLUMNS)
    shown = _Shown(console, quiet=options["as_json"])
    try:
        with shown:
            sweep = throughput_sweeps.run(sweep_id, shown.show)
    except KeyboardInterrupt as error:
        raise CommandError(_stopped(sweep_id, "interrupted")) from error
    except (OnDemandError, LookupError) as error:
        raise CommandError(_stopped(sweep_id, str(error))) from error
    if options["as_json"]:
        command.stdout.write(json.dumps(sweep_out(sweep), default=str))
    else:
        console.print(_map(sweep))


def _created(options: dict[str, Any]) -> int:
    if not options["source"] or not options["destination"]:
        raise CommandError("give the two ends, as in: sweep slac cern --windows 1M,4M --streams 1,4", returncode=2)
    if options["windows"] is None or options["streams"] is None:
        raise CommandError("give the grid, as in: --windows 256K,1M,4M --streams 1,4", returncode=2)
    if options["retry"]:
        raise CommandError("--retry goes with --resume NUMBER", returncode=2)
    path = find_path(options["source"], options["destination"], options["family"])
    base = Settings(duration_s=options["duration_s"], omit_s=options["omit_s"])
    settings = throughput_sweeps.settings_of(
        base, options["windows"], options["streams"], options["cc"], options["mss"], options["blocks"]
    )
    name = options["name"] or f"{options['source']} to {options['destination']}"
    return throughput_sweeps.create(path, settings, name=name, by=f"{getpass.getuser()}, manage.py", now=timezone.now())


def _resumed(options: dict[str, Any]) -> int:
    number: int = options["resume"]
    if options["source"] is not None or options["windows"] is not None or options["streams"] is not None:
        raise CommandError("--resume takes path and grid from the sweep; give its number alone", returncode=2)
    if throughput_sweeps.load(number, timezone.now()) is None:
        there = ", ".join(f"{row[0]} ({row[1]})" for row in throughput_sweeps.newest(5)) or "none yet"
        raise CommandError(f"there is no sweep {number}; the newest are: {there}")
    if options["retry"]:
        throughput_sweeps.forget_failures(number)
    return number


def _stopped(sweep_id: int, why: str) -> str:
    throughput_sweeps.stop(sweep_id, timezone.now())
    sweep = throughput_sweeps.load(sweep_id, timezone.now())
    ended = "" if sweep is None else f"{sweep.ended} of {len(sweep.cells)} cells have ended and are kept; "
    return f"{why}. {ended}go on with: {MANAGE} throughput sweep --resume {sweep_id}"


class _Shown:
    """Redraws on a terminal; elsewhere prints each ended cell."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self._live: Live | None = None
        self._ended: set[int] = set()
        if console.is_terminal and not quiet:
            self._live = Live(console=console, refresh_per_second=2, transient=True)
        self._inner: AbstractContextManager[object] = self._live if self._live is not None else nullcontext()

    def __enter__(self) -> _Shown:
        self._inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._inner.__exit__(*error)

    def show(self, sweep: Sweep) -> None:
        if self._live is not None:
            self._live.update(_map(sweep))
            return
        for cell in sweep.cells:
            if cell.outcome is not None and cell.place not in self._ended and not self._quiet:
                self._ended.add(cell.place)
                label = plane_label(cell.setting.plane)
                self._console.print(
                    f"{len(self._ended)} of {len(sweep.cells)}: {cell.setting}{f' ({label})' if label else ''}: "
                    f"{_rate(cell)}{f': {cell.detail}' if cell.detail and cell.throughput_bps is None else ''}",
                    highlight=False,
                )


def _map(sweep: Sweep) -> Group:
    told = knees(sweep.grid, sweep.rtt_ms)
    parts: list[Table | Text] = [Text(f"sweep {sweep.id}, {sweep.name}: {sweep.ended} of {len(sweep.cells)} cells")]
    best_bps = max((cell.throughput_bps or 0.0 for cell in sweep.cells), default=0.0)
    for plane in dict.fromkeys(cell.setting.plane for cell in sorted(sweep.cells, key=lambda swept: swept.setting)):
        parts.append(
            _plane([cell for cell in sweep.cells if cell.setting.plane == plane], plane_label(plane), best_bps)
        )
        if plane in told:
            parts += [Text(line) for line in sentences(told[plane], sweep.rtt_ms)]
        parts += [
            Text(line) for line in segment_remarks(cell.cell for cell in sweep.cells if cell.setting.plane == plane)
        ]
    missing = lacking(sweep.grid)
    return Group(*parts, *([Text(missing)] if missing else []))


def _plane(cells: list[SweepCellResult], title: str, best_bps: float) -> Table:
    by_place = {(cell.setting.window_bytes, cell.setting.streams): cell for cell in cells}
    streams = sorted({cell.setting.streams for cell in cells})
    table = Table("window", title=title or None, title_justify="left")
    for number in streams:
        table.add_column(counted(number, "stream"), justify="right")
    for window in sorted({cell.setting.window_bytes for cell in cells}, reverse=True):
        row = [by_place.get((window, number)) for number in streams]
        table.add_row(window_label(window), *(Text("") if cell is None else _heat(cell, best_bps) for cell in row))
    return table


def _heat(cell: SweepCellResult, best_bps: float) -> Text:
    if not cell.throughput_bps:
        return Text(_rate(cell), style="dim" if cell.outcome is None else "bold red")
    share = cell.throughput_bps / best_bps
    return Text(_rate(cell), style=next(style for least, style in HEATS if share >= least))


def _rate(cell: SweepCellResult) -> str:
    if cell.throughput_bps is not None:
        return figures.bit_rate(cell.throughput_bps)
    if cell.outcome is not None:
        return outcome_words(cell.outcome)
    return "waits" if cell.state is None else str(cell.state)


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f'"{text}": write whole numbers with commas between them, as 1,4,16') from None
    return list(dict.fromkeys(numbers))


def _sizes(text: str) -> list[int]:
    sizes = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)([KMG]?)", part.strip().upper())
        if match is None:
            raise argparse.ArgumentTypeError(f'"{part}": write bytes, as 262144, 256K (× 1024) or 4M')
        sizes.append(int(match[1]) * SCALES[match[2]])
    return list(dict.fromkeys(sizes))


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
