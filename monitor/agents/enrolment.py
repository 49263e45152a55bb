"""How a site's agent gets its token: the operator prints a one-time code, the agent shows it once.

    GET  /api/agent/enrol     200 Welcome: this centre's version, and the oldest agent that it takes
    POST /api/agent/enrol     an EnrolmentRequest as JSON to 200 Enrolment, with the token

A refusal is JSON, {"error": "…"}: 400 not a request, 403 a code that is unknown, used or over, 426 an agent that is too
old or speaks another protocol, 429 with Retry-After after too many wrong codes from one address. Only digests are
stored, of codes as of tokens.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

import msgspec
from django.core.cache import cache
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

import probes
from monitor.accounts.callers import client_address
from monitor.accounts.models import token_digest
from monitor.agents.answers import json_answer, open_to_programs
from monitor.agents.bodies import Refused, read_body
from monitor.agents.models import AgentToken, EnrolmentCode, issue_token
from monitor.agents.protocol import require_spoken
from monitor.mesh.models import Site
from probes.site.versions import is_older
from probes.site.wire import Enrolment, EnrolmentRequest, Welcome

OLDEST_AGENT_VERSION = "0.1.0"
LIFETIME = timedelta(hours=24)
ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""32 signs without those that are read for others, so five bits each."""
GROUPS, GROUP_SIGNS = 5, 4
LARGEST_REQUEST_BYTES = 4096
WRONG_CODES = 10
WRONG_CODES_WITHIN_S = 60


class CodeRefused(Exception):
    """A code that gives no token; the message says why."""


def issue_code(site_id: int, now: datetime, *, lifetime: timedelta = LIFETIME, replaces_tokens: bool = False) -> str:
    """A new one-time code for a site; earlier ones that were not used hold no more. It cannot be read again
    afterwards."""
    code = "-".join("".join(secrets.choice(ALPHABET) for _ in range(GROUP_SIGNS)) for _ in range(GROUPS))
    with transaction.atomic():
        withdraw_codes(site_id, now)
        EnrolmentCode.objects.create(
            site_id=site_id,
            digest=code_digest(code),
            created_at=now,
            expires_at=now + lifetime,
            replaces_tokens=replaces_tokens,
        )
    return code


def withdraw_codes(site_id: int, now: datetime) -> int:
    """End the codes of a site that were not used; how many there were."""
    return EnrolmentCode.objects.filter(site_id=site_id, used_at=None, expires_at__gt=now).update(expires_at=now)


def code_digest(code: str) -> str:
    """Of a code as people may write it. It has 100 random bits, so a slow hash would add nothing."""
    return token_digest(code.upper().replace("-", "").replace(" ", ""))


def redeem(code: str, now: datetime) -> Enrolment:
    """A token for the code's site; the code is used up with it, or not at all. Raises `CodeRefused`."""
    digest = code_digest(code)
    with transaction.atomic():
        taken = EnrolmentCode.objects.filter(digest=digest, used_at=None, expires_at__gt=now).update(used_at=now)
        if taken == 0:
            raise CodeRefused(_why_not(digest))
        found = EnrolmentCode.objects.select_related("site").get(digest=digest)
        if not Site.objects.in_use().filter(pk=found.site_id, has_agent=True).exists():
            raise CodeRefused(f'site "{found.site.name}" has no agent any more')
        if found.replaces_tokens:
            AgentToken.objects.filter(site_id=found.site_id, revoked_at=None).update(revoked_at=now)
        return Enrolment(site=found.site.name, token=issue_token(found.site_id, now))


def _why_not(digest: str) -> str:
    found = EnrolmentCode.objects.select_related("site").filter(digest=digest).first()
    if found is None:
        return "this code is wrong: type it as it was printed"
    # With a code that was used there is a token, and a site that has one is not enrolled.
    verb = "rotate" if found.used_at is not None or found.replaces_tokens else "enrol"
    again = f"`manage.py site {verb} {found.site.name}` prints a new one"
    if found.used_at is not None:
        return f"this code was used at {found.used_at.isoformat(' ', 'seconds')}; {again}"
    return f"this code held until {found.expires_at.isoformat(' ', 'seconds')}; {again}"


@open_to_programs("GET", "POST")
def enrol(request: HttpRequest) -> HttpResponse:
    """Say who we are, or take a code."""
    require_spoken(request)
    if request.method == "GET":
        return json_answer(Welcome(centre_version=probes.__version__, oldest_agent_version=OLDEST_AGENT_VERSION))
    asked = _asked(request)
    if is_older(asked.agent_version, OLDEST_AGENT_VERSION):
        raise Refused(426, f"agent {asked.agent_version} is too old; install {OLDEST_AGENT_VERSION} or later")
    address = client_address(request)
    _require_few_wrong_codes(address)
    try:
        return json_answer(redeem(asked.code, timezone.now()))
    except CodeRefused as refused:
        _note_wrong_code(address)
        raise Refused(403, str(refused)) from refused


def _asked(request: HttpRequest) -> EnrolmentRequest:
    try:
        return msgspec.json.decode(read_body(request, LARGEST_REQUEST_BYTES), type=EnrolmentRequest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"not an enrolment request: {error}") from error


def _require_few_wrong_codes(address: str) -> None:
    if cache.get(_counter(address), 0) >= WRONG_CODES:
        raise Refused(
            429,
            f"too many wrong codes from {address}; wait {WRONG_CODES_WITHIN_S} s",
            retry_after_s=WRONG_CODES_WITHIN_S,
        )


def _note_wrong_code(address: str) -> None:
    cache.add(_counter(address), 0, WRONG_CODES_WITHIN_S)
    try:
        cache.incr(_counter(address))
    except ValueError:  # it ended between the two lines
        cache.set(_counter(address), 1, WRONG_CODES_WITHIN_S)


def _counter(address: str) -> str:
    """Each web process counts for itself: this is against load; the code's length is against guessing."""
    return f"wrong-enrolment-codes-{token_digest(address)}"
