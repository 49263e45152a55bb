"""WSGI application; /health checks the web server alone."""

import gc
from collections.abc import Callable, Iterable
from typing import Any

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

from monitor.stack.health import HEALTH

# Nothing that is loaded now becomes garbage: looking for some takes a sixth of the start's processor time.
gc.disable()
_django = get_wsgi_application()
get_resolver().url_patterns  # noqa: B018 (loads all views now, once for all workers, and not in the first request)

from monitor.web.request import agent_requests  # noqa: E402 (needs Django)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer /health without Django: no database, session or host name."""
    if environ["PATH_INFO"] == HEALTH:
        start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")])
        return [b"ok\n"]
    answer = agent_requests.answer(environ, start_response)
    return _django(environ, start_response) if answer is None else answer


# What is there now stays: it is not looked through again for garbage whenever a page makes ten thousand objects.
gc.collect()
gc.freeze()
gc.enable()
