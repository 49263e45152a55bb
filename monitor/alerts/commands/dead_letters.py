"""`manage.py alerts dead-letters`: list, retry or drop notifications that could not be delivered in ten attempts."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from monitor.alerts.models import Notification
from monitor.alerts.notify.deliver import dead_letters, drop, retry
from probes.commands.subcommands import add_subcommand
from probes.quantities import counted

HELP = "list, retry or drop notifications that could not be delivered"
USAGE = 2


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="letters", metavar="ACTION")
    parser.set_defaults(as_json=False)
    listing = add_subcommand(actions, "list", "list failed notifications with the reason (default)")
    listing.add_argument("--json", action="store_true", dest="as_json", help="print one JSON list")
    for name, words in (("retry", "retry failed notifications now"), ("drop", "delete failed notifications")):
        action = add_subcommand(actions, name, words)
        action.add_argument("numbers", type=int, nargs="*", metavar="NUMBER", help="number in `list`")
        action.add_argument("--all", action="store_true", dest="every", help="all of them")


def run(command: BaseCommand, options: Mapping[str, Any]) -> None:
    if options["letters"] in (None, "list"):
        _list(command, as_json=options["as_json"])
        return
    if not options["every"] and not options["numbers"]:
        raise CommandError("give numbers from `dead-letters list`, or --all", returncode=USAGE)
    numbers = None if options["every"] else options["numbers"]
    _check(numbers or ())
    if options["letters"] == "retry":
        command.stdout.write(f"{counted(retry(numbers, timezone.now()), 'dead letter')} queued for retry")
    else:
        command.stdout.write(f"{counted(drop(numbers), 'dead letter')} dropped")


def _check(numbers: Sequence[int]) -> None:
    unknown = sorted(set(numbers) - {letter.pk for letter in dead_letters()})
    if unknown:
        raise CommandError(f"no dead letter with number {', '.join(map(str, unknown))}; nothing changed")


def _list(command: BaseCommand, *, as_json: bool) -> None:
    rows = dead_letters()
    if as_json:
        command.stdout.write(json.dumps([_as_json(letter) for letter in rows], indent=2))
        return
    for letter in rows:
        command.stdout.write(
            f"{letter.pk}: incident {letter.incident_id} {letter.change} ({letter.incident.cause}), "
            f"channel {letter.channel}, {counted(letter.attempts, 'attempt')}: {letter.problem}"
        )
    command.stdout.write(counted(len(rows), "dead letter"))


def _as_json(letter: Notification) -> dict[str, Any]:
    return {
        "number": letter.pk,
        "incident": letter.incident_id,
        "cause": letter.incident.cause,
        "change": letter.change,
        "channel": letter.channel,
        "attempts": letter.attempts,
        "problem": letter.problem,
    }
