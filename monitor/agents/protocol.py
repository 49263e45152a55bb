"""Which versions of the agents' protocol this centre speaks, and until when.

In: an agent's request. Out: `Refused` (426) where its version is not spoken; on every answer which versions are. The
version is `probes.site.wire.PROTOCOL`; how it changes is in docs/agent.md.
"""

from __future__ import annotations

from datetime import date
from functools import wraps

from django.http import HttpRequest, HttpResponse

from monitor.agents.bodies import Refused
from monitor.agents.stamps import View
from probes.site.wire import PROTOCOL, PROTOCOL_HEADER, PROTOCOLS_HEADER

LOWEST, HIGHEST = 1, PROTOCOL
LOWEST_UNTIL = date(2028, 12, 31)
"""Until when `LOWEST` is spoken at least: two years from the release that brought its successor, or, where there is
none yet, from the newest release."""
BEFORE_THE_HEADER = "1"
"""What agents speak that do not say it: those of 0.1.0 before the header."""
LONGEST_VERSION = 9


def require_spoken(request: HttpRequest) -> None:
    """Raises `Refused` where the agent speaks a version that this centre does not."""
    version = request.headers.get(PROTOCOL_HEADER, BEFORE_THE_HEADER).strip()
    if not (version.isascii() and version.isdecimal() and len(version) <= LONGEST_VERSION):
        raise Refused(400, f"{PROTOCOL_HEADER} must be a whole number, such as {HIGHEST}")
    if LOWEST <= int(version) <= HIGHEST:
        return
    outdated = "centre" if int(version) > HIGHEST else "agent"
    spoken = str(HIGHEST) if LOWEST == HIGHEST else f"{LOWEST} to {HIGHEST}"
    raise Refused(
        426,
        f"the agent speaks protocol {int(version)}, the centre {spoken}: upgrade the {outdated}; "
        "the agent keeps its results meanwhile",
    )


def telling(view: View) -> View:
    """The view, its answers with the versions that are spoken, and until when the lowest is."""

    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        response = view(request)
        response[PROTOCOLS_HEADER] = f"lowest={LOWEST}, highest={HIGHEST}, lowest-until={LOWEST_UNTIL.isoformat()}"
        return response

    return answer
