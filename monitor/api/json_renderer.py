"""JSON of the users' API. Times have the microseconds that are stored, since a time is part of an address:
Django's encoder cuts them to milliseconds."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja.renderers import JSONRenderer
from ninja.responses import NinjaJSONEncoder


class ApiEncoder(NinjaJSONEncoder):
    """Writes times as ISO 8601 to the microsecond."""

    def default(self, o: Any) -> Any:
        if isinstance(o, datetime):
            return o.isoformat().replace("+00:00", "Z")
        return super().default(o)


class ApiRenderer(JSONRenderer):
    """Renders answers with `ApiEncoder`."""

    encoder_class = ApiEncoder
