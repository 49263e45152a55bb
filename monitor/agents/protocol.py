"""Versions of the agents' protocol supported by this centre, and end of support.

In: an agent's request. Out: `RequestRefused` (426) where its version is unsupported; the supported versions on every
response. The version is `probes.site.wire.PROTOCOL`; docs/agent.md has the policy.
"""

from __future__ import annotations

from datetime import date
from functools import wraps

from django.http import HttpRequest, HttpResponse

from monitor.agents.clock_headers import View
from monitor.agents.request_bodies import RequestRefused
from probes.site.wire import PROTOCOL, PROTOCOL_HEADER, PROTOCOLS_HEADER

LOWEST, HIGHEST = 1, PROTOCOL
LOWEST_UNTIL = date(2028, 12, 31)
"""Minimum end of support for `LOWEST`: two years from the release of its successor, or from the newest release while
there is none."""
BEFORE_THE_HEADER = "1"
"""Version of agents that send no header: those of 0.1.0."""
LONGEST_VERSION = 9
OLDEST_AGENT_VERSION = "0.1.0"
"""The first version of the agent that speaks `LOWEST`."""


def require_supported_version(request: HttpRequest) -> None:
    """Raises `RequestRefused` where the agent's version is unsupported."""
    version = request.headers.get(PROTOCOL_HEADER, BEFORE_THE_HEADER).strip()
    if not (version.isascii() and version.isdecimal() and len(version) <= LONGEST_VERSION):
        raise RequestRefused(400, f"{PROTOCOL_HEADER} must be a whole number, such as {HIGHEST}")
    if LOWEST <= int(version) <= HIGHEST:
        return
    outdated = "centre" if int(version) > HIGHEST else "agent"
    spoken = str(HIGHEST) if LOWEST == HIGHEST else f"{LOWEST} to {HIGHEST}"
    raise RequestRefused(
        426,
        f"the agent speaks protocol {int(version)}, the centre {spoken}: upgrade the {outdated}; "
        "the agent keeps its results meanwhile",
    )


def add_supported_versions(view: View) -> View:
    """Decorator that adds the supported versions and end of support to a view's responses."""

    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        response = view(request)
        response[PROTOCOLS_HEADER] = f"lowest={LOWEST}, highest={HIGHEST}, lowest-until={LOWEST_UNTIL.isoformat()}"
        return response

    return answer
