"""`manage.py throughput settings SRC DST`: best settings by scheduled sweeps."""

from __future__ import annotations

import json
from datetime import UTC
from typing import IO, Any, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from rich.console import Console
from rich.table import Table

from monitor.analysis.sweeps.best_setting import BestSetting, part_text, setting_text
from monitor.analysis.tcp import wording
from monitor.api.sweeps import best_settings_out
from monitor.archive.scheduled_settings import scheduled_settings
from monitor.mesh.schedule.on_demand import find_path

SUMMARY = "show the best settings of a path over the day, from the sweeps of mesh.toml"
EXIT_STATUS = "0 shown; 1 no scheduled sweep has tested the path, or no such path; 2 usage"
PIPE_COLUMNS = 120


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("source", help="site or host that sends")
    parser.add_argument("destination", help="site or host that receives")
    parser.add_argument("--family", type=int, choices=(4, 6), help="address family of the path")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON array")


def run(command: BaseCommand, options: dict[str, Any]) -> None:
    """Raises `CommandError` and `OnDemandError`."""
    path = find_path(options["source"], options["destination"], options["family"])
    rows = scheduled_settings(path.pk, timezone.now(), UTC)
    if not rows:
        raise CommandError(f"no scheduled sweep has tested {path}; add a [[sweep]] to mesh.toml (docs/throughput.md)")
    if options["as_json"]:
        command.stdout.write(json.dumps([best_settings_out(row) for row in rows], default=str))
        return
    console = Console(file=cast("IO[str]", command.stdout))
    if not console.is_terminal:
        console = Console(file=cast("IO[str]", command.stdout), width=PIPE_COLUMNS)
    for row in rows:
        console.print(f"sweep {row.schedule}, {path}", highlight=False)
        for sentence in row.sentences:
            console.print(sentence, highlight=False)
        if row.problem is not None:
            console.print(f"next test: {row.problem}", highlight=False)
        if row.best is not None:
            console.print(_rates(row.best.day))
            for part in row.best.parts:
                console.print(f"{part.begin_h:02}:00 to {part.end_h:02}:00  {part_text(part)}", highlight=False)


def _rates(part: BestSetting) -> Table:
    table = Table("setting", "tests", "mean", "95% CI")
    for rate in part.rates:
        interval = "" if rate.low_bps is None else f"{wording.rate(rate.low_bps)} to {wording.rate(rate.high_bps)}"
        table.add_row(setting_text(rate.setting), str(rate.tests), wording.rate(rate.mean_bps), interval)
    return table
