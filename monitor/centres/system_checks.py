"""Check that others cannot read the file of SOUNDINGS_OTHER_CENTRES."""

from __future__ import annotations

from typing import Any

from django.core.checks import WARNING, CheckMessage, Tags, register

from monitor import environment
from monitor.centres.configured import VARIABLE


@register(Tags.security)
def check_file(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    file = environment.file_open_to_others(VARIABLE)
    if file is None:
        return []
    hint = f"it holds tokens of other centres: chmod 600 {file}"
    return [CheckMessage(WARNING, f"{VARIABLE}_FILE={file} is readable by other users", hint, id="centres.W001")]
