"""Authenticate agents by their site's token; limit rates; refuse second agents (401, 409, 426, 429)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any

from django.db import InterfaceError, OperationalError, connection
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from monitor.accounts import rate_limits
from monitor.accounts.callers import client_address, note_valid_token
from monitor.accounts.models import token_digest
from monitor.agents import holders
from monitor.agents.clock_headers import View
from monitor.agents.protocol import require_supported_version
from monitor.agents.request_bodies import RequestRefused
from monitor.agents.responses import open_to_programs
from monitor.mesh import stored_plans
from monitor.prepared import run_prepared
from probes.commands.own_command import MANAGE
from probes.site.wire import IDENTITY_HEADER

FIND_TOKEN = f"""
SELECT token.id, token.instance, token.instance_start, token.site_id, site.name, site_plan.version
FROM agent_token AS token
INNER JOIN site ON site.id = token.site_id
{stored_plans.JOIN_VALID.format(site_id="token.site_id")}
WHERE token.digest = %(digest)s AND token.revoked_at IS NULL
"""


@dataclass(frozen=True, slots=True)
class AgentSite:
    pk: int
    name: str
    plan_version: str | None  # None where the plan must be built


AgentView = Callable[[HttpRequest, AgentSite], HttpResponse]


def agent_view(method: str) -> Callable[[AgentView], View]:
    """Refuse requests without a valid token or above the rate limit."""

    def wrap(view: AgentView) -> View:
        @open_to_programs(method)
        @wraps(view)
        def answer(request: HttpRequest) -> HttpResponse:
            require_supported_version(request)
            return view(request, authenticate(request))

        return answer

    return wrap


def has_valid_token(request: HttpRequest) -> bool:
    """Whether the headers have a valid site token."""
    digest = _digest(request)
    return digest is not None and _find_token(digest, timezone.now()) is not None


def authenticate(request: HttpRequest) -> AgentSite:
    """Find the token's site, in one look-up by digest for any token, valid or not. Raises `RequestRefused`."""
    digest, now = _digest(request), timezone.now()
    if digest is None:
        raise RequestRefused(401, f"no token: send Authorization: Bearer TOKEN; `{MANAGE} site token NAME` creates it")
    row = _find_token(digest, now)
    if row is None:
        raise RequestRefused(401, f"this token is unknown or revoked; `{MANAGE} site token NAME` makes a new one")
    note_valid_token(request, digest)
    token_id, instance, instance_start, *of_site = row
    site = AgentSite(*of_site)
    wait_s = rate_limits.wait_s_of_calm(f"agent:{digest}", rate_limits.AGENT)
    if wait_s > 0:
        raise RequestRefused(429, f"{site.name} asks too often; slow down", retry_after_s=wait_s)
    binding = holders.Binding(token_id, instance, instance_start)
    holders.require_holder(binding, request.headers.get(IDENTITY_HEADER), client_address(request), now)
    return site


def _digest(request: HttpRequest) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token_digest(token.strip()) if scheme.lower() == "bearer" and token.strip() else None


def _find_token(digest: str, now: datetime) -> tuple[Any, ...] | None:
    """Read a token's row, again over a new connection if the old broke."""
    parameters = {"digest": digest, "maker": stored_plans.maker(), "now": now}
    try:
        row: tuple[Any, ...] | None = run_prepared(FIND_TOKEN, parameters).fetchone()
    except (OperationalError, InterfaceError):
        if connection.in_atomic_block or connection.is_usable():
            raise
        connection.close()
        row = run_prepared(FIND_TOKEN, parameters).fetchone()
    return row
