"""JSON with microseconds: times are parts of addresses, and Django's encoder cuts them to milliseconds."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja.renderers import JSONRenderer
from ninja.responses import NinjaJSONEncoder


class ApiEncoder(NinjaJSONEncoder):
    def default(self, o: Any) -> Any:
        if isinstance(o, datetime):
            return o.isoformat().replace("+00:00", "Z")
        return super().default(o)


class ApiRenderer(JSONRenderer):
    encoder_class = ApiEncoder
