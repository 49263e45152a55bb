"""`manage.py alerts backtest`; other subcommands are modules of `monitor.alerts.commands`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any, cast

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from monitor.alerts.backtest import archived, labelled, report
from monitor.alerts.commands import dead_letters, send_test
from monitor.alerts.detect.rules.catalogue import RULES
from monitor.alerts.detect.rules.round_trips import RTT
from monitor.database_errors import reported_to_user
from probes.commands.subcommands import add_subcommand, moment
from probes.toml.lines import suggestion

USAGE = 2
WIDTH_COLUMNS = 120
# Modules with HELP, `add_arguments` and `run`.
OTHERS = {"dead-letters": dead_letters, "test-notification": send_test}


class Command(BaseCommand):
    help = "Backtest alert rules; test and retry notifications. See docs/alerts.md."
    # Labelled series need neither a database nor the rest of the project.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True, metavar="COMMAND")
        backtest = add_subcommand(
            commands, "backtest", "replay the rules on past data; opens no incident, notifies nobody"
        )
        backtest.add_argument(
            "--rule", action="append", dest="rules", type=_rule, metavar="RULE",
            help=f"rule to run, may be repeated: {', '.join(RULES)}; default: all; with --dataset {RTT.name}",
        )  # fmt: skip
        time_format = "e.g. 2026-03-14 or 2026-03-14T12:00, UTC by default"
        backtest.add_argument(
            "--from", dest="since", type=moment, metavar="TIME", help=f"start of the period, {time_format}"
        )
        backtest.add_argument("--to", dest="until", type=moment, metavar="TIME", help="end of the period")
        backtest.add_argument(
            "--dataset", type=Path, metavar="DIR", help="instead of the archive: a folder of series as .csv files, "
            "time;rtt;cp in UTC and ms, cp 1 at a marked change",
        )  # fmt: skip
        backtest.add_argument(
            "--every-s", type=_seconds, metavar="S",
            help="interval of evaluations in seconds; default: the shortest ping interval; with --dataset "
            f"{labelled.EVERY_S:g}",
        )  # fmt: skip
        backtest.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")

        for name, module in OTHERS.items():
            module.add_arguments(add_subcommand(commands, name, module.HELP))

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        if action in OTHERS:
            OTHERS[action].run(self, options)
        else:
            self._backtest(**options)

    def _backtest(self, *, dataset: Path | None, as_json: bool, **options: Any) -> None:
        since, until, rules, every_s = (options[name] for name in ("since", "until", "rules", "every_s"))
        if dataset is not None and (since or until):
            raise CommandError("--dataset cannot be combined with --from or --to", returncode=USAGE)
        if dataset is None and (since is None or until is None):
            raise CommandError("give --from and --to, or --dataset DIR", returncode=USAGE)
        figures = (
            _backtest_archive(since, until, rules, every_s)
            if dataset is None
            else _backtest_labelled(dataset, rules, every_s)
        )
        if as_json:
            self.stdout.write(json.dumps(figures))
            return
        self.stdout.write(report.words(figures))
        console = Console(file=cast("IO[str]", self.stdout), highlight=False, width=WIDTH_COLUMNS)
        for table in report.tables(figures):
            console.print()
            console.print(table)
        lines = report.incident_lines(figures)
        if lines:
            self.stdout.write("\n" + "\n".join(lines))


def _backtest_archive(
    since: datetime, until: datetime, rules: Sequence[str] | None, every_s: float | None
) -> dict[str, Any]:
    if since >= until:
        raise CommandError(f"--to {until:%Y-%m-%dT%H:%M} is not after --from {since:%Y-%m-%dT%H:%M}", returncode=USAGE)
    ordered = _in_order(rules or RULES)
    try:
        with _progress(since, until) as show, reported_to_user():
            return report.archive_report(ordered, archived.replay(since, until, ordered, every_s, show))
    except archived.NoBurstsError as error:
        raise CommandError(str(error)) from error


def _backtest_labelled(folder: Path, rules: Sequence[str] | None, every_s: float | None) -> dict[str, Any]:
    ordered = _in_order(rules or (RTT.name,))
    try:
        traces = labelled.load(folder)
    except labelled.DatasetError as error:
        raise CommandError(str(error)) from error
    since = min(trace.series.measured_at[0] for trace in traces)
    until = max(trace.series.measured_at[-1] for trace in traces)
    with _progress(since, until) as show:
        outcome = labelled.replay(traces, {}, ordered, labelled.EVERY_S if every_s is None else every_s, show)
    return report.labelled_report(ordered, outcome)


def _in_order(rules: Sequence[str] | Any) -> tuple[str, ...]:
    return tuple(name for name in RULES if name in rules)


def _rule(text: str) -> str:
    if text not in RULES:
        raise ArgumentTypeError(f'there is no rule "{text}"{suggestion(text, RULES, "")}; write {", ".join(RULES)}')
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1.0 <= seconds <= 43_200.0:
        raise ArgumentTypeError(f'"{text}": write seconds from 1 to 43200 (half a day)')
    return seconds


@contextmanager
def _progress(since: datetime, until: datetime) -> Iterator[Callable[[datetime], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, transient=True, console=console, disable=not console.is_terminal) as shown:
        task = shown.add_task("replaying", total=(until - since).total_seconds())
        yield lambda now: shown.update(
            task, completed=(now - since).total_seconds(), description=f"{now:%Y-%m-%d %H:%M} UTC"
        )
