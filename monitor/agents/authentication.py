"""Authenticate an agent by the token of its site, limit its rate of requests, and refuse a second agent of a site.

In: a request. Out: its `Site`, or `RequestRefused` with status 401, 409, 426 or 429.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from monitor.accounts import rate_limits
from monitor.accounts.callers import client_address
from monitor.accounts.models import token_digest
from monitor.agents import holders
from monitor.agents.clock_headers import View
from monitor.agents.models import AgentToken
from monitor.agents.protocol import require_supported_version
from monitor.agents.request_bodies import RequestRefused
from monitor.agents.responses import open_to_programs
from monitor.mesh.models import Site
from probes.commands.own_command import MANAGE
from probes.site.wire import IDENTITY_HEADER

AgentView = Callable[[HttpRequest, Site], HttpResponse]


def agent_view(method: str) -> Callable[[AgentView], View]:
    """Decorator for views of an authenticated site: refuses requests without a valid token or above the rate limit."""

    def wrap(view: AgentView) -> View:
        @open_to_programs(method)
        @wraps(view)
        def answer(request: HttpRequest) -> HttpResponse:
            require_supported_version(request)
            return view(request, authenticate(request))

        return answer

    return wrap


def authenticate(request: HttpRequest) -> Site:
    """Site whose agent holds the token. A single look-up by digest for any token, valid or not."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise RequestRefused(401, f"no token: send Authorization: Bearer TOKEN; `{MANAGE} site token NAME` creates it")
    digest = token_digest(token.strip())
    agent_token = AgentToken.objects.select_related("site").filter(digest=digest, revoked_at=None).first()
    if agent_token is None:
        raise RequestRefused(401, f"this token is unknown or revoked; `{MANAGE} site token NAME` makes a new one")
    wait_s = rate_limits.wait_s(f"agent:{digest}", rate_limits.AGENT)
    if wait_s > 0:
        raise RequestRefused(429, f"{agent_token.site.name} asks too often; slow down", retry_after_s=wait_s)
    holders.require_holder(agent_token, request.headers.get(IDENTITY_HEADER), client_address(request), timezone.now())
    return agent_token.site
