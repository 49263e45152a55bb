"""`manage.py alerts test-notification NAME`: sends a message that says it is a test, and tells what went wrong."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from monitor.alerts.notify.deliver import test_channel
from monitor.mesh.notify_routes import channels
from probes.toml_lines import suggestion

HELP = "send a test message through a channel, and say what went wrong"
USAGE = 2


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the channel, as SOUNDINGS_NOTIFY_URLS names it")


def run(command: BaseCommand, options: Mapping[str, Any]) -> None:
    name, known = options["name"], channels()
    if name not in known:
        there = f"; it has {', '.join(sorted(known))}" if known else "; it has none"
        raise CommandError(
            f'SOUNDINGS_NOTIFY_URLS has no channel "{name}"{suggestion(name, known, there)}', returncode=USAGE
        )
    problem = test_channel(name, timezone.now())
    if problem:
        raise CommandError(f"channel {name} did not take the test message: {problem}")
    command.stdout.write(f"channel {name} took the test message")
