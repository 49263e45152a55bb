"""`manage.py alerts dead-letters`: messages that no channel took in ten attempts. Lists them, sends them again, drops
them."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from monitor.alerts.models import Notification
from monitor.alerts.notify.deliver import dead_letters, drop, retry

HELP = "messages that were given up: list them, send them again, drop them"
USAGE = 2


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="letters", metavar="ACTION")
    parser.set_defaults(as_json=False)
    listing = actions.add_parser("list", help="what there is and why; so it does without an action too")
    listing.add_argument("--json", action="store_true", dest="as_json", help="print one JSON list")
    for name, words in (("retry", "send them again, now and with all attempts"), ("drop", "give them up for good")):
        action = actions.add_parser(name, help=words)
        action.add_argument("numbers", type=int, nargs="*", metavar="NUMBER", help="as `list` shows them")
        action.add_argument("--all", action="store_true", dest="every", help="all of them")


def run(command: BaseCommand, options: Mapping[str, Any]) -> None:
    if options["letters"] in (None, "list"):
        _list(command, as_json=options["as_json"])
        return
    if not options["every"] and not options["numbers"]:
        raise CommandError("which? write their numbers as `dead-letters list` shows them, or --all", returncode=USAGE)
    numbers = None if options["every"] else options["numbers"]
    _check(numbers or ())
    if options["letters"] == "retry":
        command.stdout.write(f"{retry(numbers, timezone.now())} to be sent again, within seconds")
    else:
        command.stdout.write(f"{drop(numbers)} dropped")


def _check(numbers: Sequence[int]) -> None:
    unknown = sorted(set(numbers) - {one.pk for one in dead_letters()})
    if unknown:
        raise CommandError(f"no dead letter has the number {', '.join(map(str, unknown))}; nothing was done")


def _list(command: BaseCommand, *, as_json: bool) -> None:
    rows = dead_letters()
    if as_json:
        command.stdout.write(json.dumps([_as_json(one) for one in rows], indent=2))
        return
    for one in rows:
        command.stdout.write(
            f"{one.pk}: incident {one.incident_id} {one.change} ({one.incident.cause}), channel {one.channel}, "
            f"{one.attempts} attempts: {one.problem}"
        )
    command.stdout.write(f"{len(rows)} dead letter{'' if len(rows) == 1 else 's'}")


def _as_json(one: Notification) -> dict[str, Any]:
    return {
        "number": one.pk,
        "incident": one.incident_id,
        "cause": one.incident.cause,
        "change": one.change,
        "channel": one.channel,
        "attempts": one.attempts,
        "problem": one.problem,
    }
