"""Add the centre's time to responses, so that agents can compute their clock offset."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps

from django.http import HttpRequest, HttpResponse

from probes.site.wire import RECEIVED_HEADER, SENT_HEADER

View = Callable[[HttpRequest], HttpResponse]


def add_timestamps(view: View) -> View:
    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        received_s = time.time()
        response = view(request)
        response[RECEIVED_HEADER] = f"{received_s:.6f}"
        response[SENT_HEADER] = f"{time.time():.6f}"
        return response

    return answer
