"""`manage.py database`: set up servers that `manage.py up` does not run: role, standby, promotion."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError

from monitor import environment
from monitor.stack.postgres import PostgresError
from monitor.stack.server_roles import RoleError, prepare
from monitor.stack.standby import StandbyError, make_standby, promote
from probes.commands.ending import read_text
from probes.commands.subcommands import add_subcommand


class Command(BaseCommand):
    help = "Set up Soundings on a database server of your own."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True)
        standby_help = "copy the primary to a folder as a streaming standby, and let deliveries wait for it"
        for name, summary, server in (
            (
                "role",
                "create the role of SOUNDINGS_DATABASE_URL, not a superuser, and give it the database",
                "database",
            ),
            ("standby", standby_help, "primary's database"),
            ("promote", "make a standby the primary, once the primary is gone", "standby's database"),
        ):
            verb = add_subcommand(commands, name, summary)
            verb.add_argument(
                "--superuser-url-file",
                type=Path,
                required=True,
                metavar="FILE",
                help=f"file with the URL of the {server} as a superuser, postgresql://postgres:password@host:port/name",
            )
            if name == "standby":
                verb.add_argument(
                    "--folder", type=Path, required=True, metavar="DIR", help="data directory of the standby; empty"
                )

    def handle(self, *args: Any, action: str, superuser_url_file: Path, folder: Path | None = None, **_: Any) -> None:
        try:
            url = read_text(superuser_url_file).strip()
            if folder is not None:
                make_standby(url, folder.absolute())
                self.stdout.write(f"{folder} is a standby: start PostgreSQL with it")
            elif action == "promote":
                self._promote(url)
            else:
                self._make_role(url)
        except (RoleError, StandbyError, PostgresError) as error:
            raise CommandError(str(error)) from error
        except psycopg.Error as error:
            raise CommandError(f"the database cannot be set up: {str(error).strip()}") from error

    def _make_role(self, url: str) -> None:
        if prepare(url, environment.read("SOUNDINGS_DATABASE_URL")):
            self.stdout.write("renamed the superuser of an earlier release")
        self.stdout.write("the database belongs to the role of SOUNDINGS_DATABASE_URL, which is not a superuser")

    def _promote(self, url: str) -> None:
        replayed_at = promote(url)
        until = "" if replayed_at is None else f"; its last transaction is of {replayed_at.isoformat(' ', 'seconds')}"
        self.stdout.write(f"the standby is the primary now{until}")
        self.stdout.write("the old primary must not start again: make a standby of this server in its place")
