"""`manage.py completion bash`: print a script for tab completion of the centre's commands."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from monitor.command_line import SoundingsCommands
from probes.commands.completion import SHELLS, bash_script


class Command(BaseCommand):
    help = "Print a script for tab completion."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("shell", choices=SHELLS, help="the shell; load it with eval, as its first line says")

    def handle(self, **_: Any) -> None:
        commands = SoundingsCommands(["manage.py"])
        names = commands.main_help_text(commands_only=True).split()
        parsers = {name: commands.fetch_command(name).create_parser("manage.py", name) for name in names}
        self.stdout.write(bash_script("python manage.py", "manage", ["manage.py", "soundings"], parsers), ending="")
