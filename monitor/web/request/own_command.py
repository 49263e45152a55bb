"""`manage` in templates: `soundings` where installed, `manage.py` in a clone."""

from __future__ import annotations

from django.http import HttpRequest

from probes.commands.own_command import MANAGE


def own_command(_: HttpRequest) -> dict[str, str]:
    return {"manage": MANAGE}
