"""`manage.py throughput run SRC DST` runs a throughput test now; its other sub-commands are in `COMMANDS`.

Each is a module of `monitor.api.throughput_commands`.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from monitor.api.throughput_commands import run, sweep

COMMANDS = {"run": run, "sweep": sweep}


class Command(BaseCommand):
    help = "On-demand throughput tests. docs/throughput.md explains them."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True, metavar="|".join(COMMANDS))
        for name, module in COMMANDS.items():
            text = (module.__doc__ or "").partition("\n")[0].partition(": ")[2].rstrip(".")
            module.add_arguments(commands.add_parser(name, help=text, description=text))

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        COMMANDS[action].run(self, options)
