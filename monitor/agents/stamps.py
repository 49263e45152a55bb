"""The centre's clock on its answers to agents, so that they can tell how far theirs is off."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps

from django.http import HttpRequest, HttpResponse

from probes.site.wire import RECEIVED_HEADER, SENT_HEADER

View = Callable[[HttpRequest], HttpResponse]


def stamped(view: View) -> View:
    """The view, its answers with when the request was taken up and when the answer was ready."""

    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        received_s = time.time()
        response = view(request)
        response[RECEIVED_HEADER] = f"{received_s:.6f}"
        response[SENT_HEADER] = f"{time.time():.6f}"
        return response

    return answer
