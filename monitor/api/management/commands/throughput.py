"""`manage.py throughput`; its sub-commands are modules of `monitor.api.throughput_commands`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from monitor.api.throughput_commands import aggregate, aggregates, packets, run, settings, sweep
from monitor.mesh.schedule.on_demand import OnDemandError
from probes.commands.subcommands import add_subcommand

COMMANDS = {
    "run": run, "sweep": sweep, "settings": settings, "packets": packets,
    "aggregate": aggregate, "aggregates": aggregates,
}  # fmt: skip


class Command(BaseCommand):
    help = "Run throughput tests on demand. See docs/throughput.md."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True, metavar="|".join(COMMANDS))
        for name, module in COMMANDS.items():
            module.add_arguments(add_subcommand(commands, name, module.SUMMARY, exit_status=module.EXIT_STATUS))

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            COMMANDS[action].run(self, options)
        except OnDemandError as error:
            raise CommandError(str(error)) from error
