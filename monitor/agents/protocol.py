"""Supported versions of the agents' protocol (`probes.site.wire.PROTOCOL`); docs/agent.md has the policy."""

from __future__ import annotations

from datetime import date
from functools import wraps

from django.http import HttpRequest, HttpResponse

from monitor.agents.clock_headers import View
from monitor.agents.request_bodies import RequestRefused
from probes.site.wire import PROTOCOL, PROTOCOL_HEADER, PROTOCOLS_HEADER

LOWEST, HIGHEST = 1, PROTOCOL
# Two years from the release of `LOWEST`'s successor, or from the newest release while there is none.
LOWEST_UNTIL = date(2028, 12, 31)
# Agents of 0.1.0 send no header.
BEFORE_THE_HEADER = "1"
LONGEST_VERSION = 9
# The first version of the agent that speaks `LOWEST`.
OLDEST_AGENT_VERSION = "0.1.0"


def require_supported_version(request: HttpRequest) -> None:
    """Raise `RequestRefused`: 426 if the agent's version is unsupported, 400 if it is no number."""
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
    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        response = view(request)
        response[PROTOCOLS_HEADER] = f"lowest={LOWEST}, highest={HIGHEST}, lowest-until={LOWEST_UNTIL.isoformat()}"
        return response

    return answer
