"""`manage.py alerts test-notification NAME`: send a test message through a channel and report errors."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from monitor.alerts.notify.deliver import send_test_message
from monitor.mesh.document.notify_routes import channels
from probes.toml.lines import suggestion

HELP = "send a test message through a channel, report errors"
USAGE = 2


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="channel name in SOUNDINGS_NOTIFY_URLS")


def run(command: BaseCommand, options: Mapping[str, Any]) -> None:
    name, names = options["name"], channels()
    if name not in names:
        there = f"; it has {', '.join(sorted(names))}" if names else "; it has none"
        raise CommandError(
            f'SOUNDINGS_NOTIFY_URLS has no channel "{name}"{suggestion(name, names, there)}', returncode=USAGE
        )
    problem = send_test_message(name, timezone.now())
    if problem:
        raise CommandError(f"channel {name} rejected the test message: {problem}")
    command.stdout.write(f"channel {name}: test message sent")
