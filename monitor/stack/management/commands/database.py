"""`manage.py database role`: the role with which the centre uses a database server that `manage.py up` does not run."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError

from monitor import environment
from monitor.stack.server_roles import RoleError, prepare
from probes.commands.subcommands import add_subcommand


class Command(BaseCommand):
    help = "Set up Soundings on a database server of your own."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True)
        role = add_subcommand(
            commands, "role", "create the role of SOUNDINGS_DATABASE_URL, not a superuser, and give it the database"
        )
        role.add_argument(
            "--superuser-url-file",
            type=Path,
            required=True,
            metavar="FILE",
            help="file with the URL of that database as a superuser, postgresql://postgres:password@host:port/name",
        )

    def handle(self, *args: Any, superuser_url_file: Path, **_: Any) -> None:
        try:
            renamed = prepare(superuser_url_file.read_text().strip(), environment.read("SOUNDINGS_DATABASE_URL"))
        except OSError as error:
            raise CommandError(f"{superuser_url_file}: {error.strerror}; give a readable file") from error
        except RoleError as error:
            raise CommandError(str(error)) from error
        except psycopg.Error as error:
            raise CommandError(f"the database cannot be set up: {str(error).strip()}") from error
        if renamed:
            self.stdout.write("renamed the superuser of an earlier release")
        self.stdout.write("the database belongs to the role of SOUNDINGS_DATABASE_URL, which is not a superuser")
