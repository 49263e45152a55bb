"""The centre's program as `manage` in every template: `soundings` where it is installed, `manage.py` in a clone."""

from __future__ import annotations

from django.http import HttpRequest

from probes.commands.own_command import MANAGE


def own_command(_: HttpRequest) -> dict[str, str]:
    """The context processor."""
    return {"manage": MANAGE}
