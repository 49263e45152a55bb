"""`manage.py centres`: request each other centre's summary, and print it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from monitor.centres.collect import collect
from monitor.centres.configured import FORM, VARIABLE


class Command(BaseCommand):
    help = "Request the summaries of other centres; print each state or error."

    def handle(self, *args: Any, **options: Any) -> None:
        answers = collect(settings.OTHER_CENTRES)
        if not answers:
            self.stdout.write(f"no other centre: {VARIABLE} is empty; write {FORM}")
        for answer in answers:
            said = answer.problem or (answer.summary or {}).get("state", {}).get("sentence", "")
            self.stdout.write(f"{answer.name}: {said}")
        failed = [answer.name for answer in answers if answer.problem]
        if failed:
            raise CommandError(f"{len(failed)} of {len(answers)} gave no summary: {', '.join(failed)}")
