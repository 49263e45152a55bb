"""Django system checks of SOUNDINGS_NOTIFY_URLS: valid channels, unique names, a private file. Messages quote no
URL."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.conf import settings
from django.core.checks import WARNING, CheckMessage, Error, Tags, register

from monitor import environment
from monitor.mesh.document.notify_routes import named

VARIABLE = "SOUNDINGS_NOTIFY_URLS"


@register(Tags.security)
def check_channels(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    problems: list[CheckMessage] = []
    for place, word in enumerate(settings.NOTIFY_URLS, start=1):
        if ":" not in named(word)[1] or "://" not in word:
            hint = "write name=URL, as in oncall=slack://…, with spaces or lines between the channels"
            problems.append(Error(f"{VARIABLE}: entry {place} is not a URL", hint=hint, id="alerts.E001"))
    names = Counter(named(word)[0] for word in settings.NOTIFY_URLS)
    for name, count in names.items():
        if count > 1:
            hint = "channel names must be unique"
            problems.append(Error(f'{VARIABLE}: {count} channels have the name "{name}"', hint=hint, id="alerts.E002"))
    file = environment.file_open_to_others(VARIABLE)
    if file is not None:
        hint = f"its URLs hold passwords: chmod 600 {file}"
        problems.append(
            CheckMessage(WARNING, f"{VARIABLE}_FILE={file} is readable by other users", hint, id="alerts.W001")
        )
    return problems
