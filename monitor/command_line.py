"""`manage.py`: Django's command line with our commands first, without its harmful commands.

Errors that a user can fix have no traceback. Commands do not write to a later release's database.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from django.conf import settings
from django.core.management import ManagementUtility, get_commands, load_command_class
from django.core.management.base import BaseCommand, CommandParser
from django.core.management.color import color_style
from django.db import OperationalError

from monitor.archive.upkeep.releases import LaterRelease, require_no_later_release
from monitor.database_errors import unusable
from probes.commands.ending import without_traceback
from probes.commands.own_command import MANAGE
from probes.commands.subcommands import bound_numbers

# Commands of Django that do harm or nothing useful here, with a reason or replacement.
REFUSED = {
    "createcachetable": "Soundings has no cache table",
    "createsuperuser": f"run `{MANAGE} user add NAME --role operator`",
    "dumpdata": f"it is neither consistent nor complete; run `{MANAGE} archive backup --out FILE`",
    "flush": (
        "it would delete all measurements, incidents and accounts; to begin anew, stop Soundings and use another data "
        f"folder: `{MANAGE} up --data DIR`"
    ),
    "loaddata": f"run `{MANAGE} archive restore FILE`",
    "runserver": f"it starts neither the worker nor the agents; run `{MANAGE} up`",
    "sqlflush": f"it prints the statements that delete everything; `{MANAGE} archive backup` makes a copy first",
    "startapp": "it creates a project's files; docs/architecture.md says where new code belongs",
    "startproject": "it creates a project's files; docs/architecture.md says where new code belongs",
    "test": "run `make test`",
    "testserver": f"it empties its database; run `{MANAGE} up --lab`",
}

# Options of every command of Django, which still work.
DJANGO_OPTIONS = {"version", "verbosity", "settings", "pythonpath", "traceback", "no_color", "force_color"}

# Commands of Django that are never needed here, and harmless.
UNLISTED = {"compilemessages", "findstatic", "inspectdb", "makemessages", "remove_stale_contenttypes"}

# Our commands that only read, with their actions that do; empty: all actions. All others write.
READING: dict[str, frozenset[str]] = {
    "alerts": frozenset({"backtest"}),
    "archive": frozenset({"status", "backup"}),
    "check": frozenset(),
    "completion": frozenset(),
    "estimate": frozenset(),
    "mesh": frozenset({"check"}),
    "report": frozenset({"subscribers"}),
    "routes": frozenset({"status", "lookup"}),
    "site": frozenset({"list"}),
    "throughput": frozenset({"settings", "packets", "aggregates"}),
    "user": frozenset({"list"}),
}
DJANGO_WRITING = {"changepassword", "clearsessions", "remove_stale_contenttypes"}


class SoundingsCommands(ManagementUtility):
    """Abbreviated options are errors."""

    def main_help_text(self, commands_only: bool = False) -> str:
        ours = [name for name, app in get_commands().items() if _is_ours(app)]
        others = sorted(get_commands().keys() - {*ours, *REFUSED, *UNLISTED})
        if commands_only:
            return "\n".join(sorted([*ours, *others]))
        heading = color_style().NOTICE
        width = max(map(len, ours), default=0)
        lines = [f"usage: {self.prog_name} COMMAND …; {self.prog_name} COMMAND --help describes each"]
        if self.settings_exception is None:
            lines += ["", heading("Soundings")]
            lines += [f"  {name:<{width}}  {_summary(name)}" for name in sorted(ours)]
        else:
            lines += ["", heading(f"the commands of Soundings need its settings: {self.settings_exception}")]
        lines += ["", heading("Django, for administrators and developers")]
        return "\n".join([*lines, *_wrapped(others)])

    def fetch_command(self, subcommand: str) -> BaseCommand:
        """Exit where the command is refused or does not exist."""
        if subcommand in REFUSED:
            _end(f"{MANAGE} {subcommand} is disabled: {REFUSED[subcommand]}")
        command: Any = super().fetch_command(subcommand)
        create = partial(command.create_parser, allow_abbrev=False)
        is_ours = _is_ours(type(command).__module__)
        command.create_parser = partial(_without_django_options if is_ours else _bounded, create)
        if is_ours or subcommand in DJANGO_WRITING:
            command.handle = partial(_refuse_later_release, subcommand, command.handle)
        command.handle = partial(_with_collections, command.handle)
        return command  # type: ignore[no-any-return]


def main(arguments: list[str]) -> None:
    """Run a command line. Exit status: 0 done, 1 failed, 2 usage."""
    if os.environ.get("NO_COLOR"):
        os.environ["DJANGO_COLORS"] = "nocolor"  # Django does not read NO_COLOR
    with without_traceback(" ".join([MANAGE, *(part for part in arguments[1:2] if part.isascii())]), arguments[1:]):
        try:
            SoundingsCommands(arguments).execute()
        except OperationalError as error:
            raise SystemExit(f"{MANAGE}: {unusable(error)}") from error
        except LaterRelease as error:
            raise SystemExit(f"{MANAGE}: {error}") from error
        except LookupError as error:
            # Django's registry raises this very class for an application that was typed; a KeyError is a bug.
            if type(error) is not LookupError or not any(f"'{label}'" in str(error) for label in arguments[2:]):
                raise
            raise SystemExit(f"{MANAGE} {arguments[1]}: {error} Give the name of one, such as alerts.") from error


def _with_collections(handle: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
    """Run a command with garbage collection of its own objects."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    return handle(*arguments, **options)


def _refuse_later_release(name: str, handle: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
    reading = READING.get(name)
    if reading is None or (reading and options.get("action", options.get("report")) not in reading):
        require_no_later_release()
    return handle(*arguments, **options)


def _without_django_options(create: Callable[..., CommandParser], *names: str, **options: Any) -> CommandParser:
    parser = _bounded(create, *names, **options)
    for action in parser._actions:
        if action.dest in DJANGO_OPTIONS:
            action.help = argparse.SUPPRESS
    return parser


def _bounded(create: Callable[..., CommandParser], *names: str, **options: Any) -> CommandParser:
    parser = create(*names, **options)
    bound_numbers(parser)
    return parser


def _is_ours(app: str | BaseCommand) -> bool:
    return isinstance(app, str) and app.partition(".")[0] == settings.ROOT_URLCONF.partition(".")[0]


def _summary(name: str) -> str:
    command = load_command_class(str(get_commands()[name]), name)
    return str(command.help).partition(". ")[0].removesuffix(".")


def _wrapped(names: list[str]) -> list[str]:
    return textwrap.wrap(", ".join(names), width=78, initial_indent="  ", subsequent_indent="  ")


def _end(sentence: str) -> NoReturn:
    print(sentence, file=sys.stderr)
    raise SystemExit(1)
