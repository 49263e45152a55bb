"""`manage.py check` as Django's, with the database unless other checks are chosen."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.core.management.commands import check
from django.db import DEFAULT_DB_ALIAS


class Command(check.Command):
    help = "Check settings, database and agents, before an upgrade too. See docs/upgrade.md."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        labels = next(action for action in parser._actions if action.dest == "args")
        labels.help = "only the checks of these applications"

    def handle(self, *app_labels: Any, **options: Any) -> None:
        if not (app_labels or options["tags"] or options["deploy"] or options["databases"]):
            options["databases"] = [DEFAULT_DB_ALIAS]
        super().handle(*app_labels, **options)
