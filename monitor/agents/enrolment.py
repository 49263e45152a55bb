"""Enrol agents: an agent exchanges an operator's one-time code for a token. docs/api.md has the requests and statuses.

Codes and tokens are stored as digests.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

import msgspec
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

import probes
from monitor import redis_client
from monitor.accounts.callers import client_address
from monitor.accounts.models import token_digest
from monitor.agents.models import AgentToken, EnrolmentCode, issue_token
from monitor.agents.protocol import OLDEST_AGENT_VERSION, require_supported_version
from monitor.agents.request_bodies import RequestRefused, read_body
from monitor.agents.responses import json_answer, open_to_programs
from monitor.mesh.models import Site
from probes.commands.own_command import MANAGE
from probes.site.versions import is_older
from probes.site.wire import Enrolment, EnrolmentRequest, Welcome

LIFETIME = timedelta(hours=24)
# 32 characters without those easily confused, so five bits each.
ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
GROUPS, GROUP_SIGNS = 5, 4
LARGEST_REQUEST_BYTES = 4096
WRONG_CODES = 10
WRONG_CODES_WITHIN_S = 60
# The time counts from the first of them.
COUNT_WRONG_CODE = """
local wrong = redis.call('INCR', KEYS[1])
if wrong == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return wrong
"""


class CodeRefused(Exception):
    """The code is not valid; the message says why."""


def issue_code(site_id: int, now: datetime, *, lifetime: timedelta = LIFETIME, replaces_tokens: bool = False) -> str:
    """Create a one-time code and invalidate the site's unused codes; it cannot be read again."""
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
    return EnrolmentCode.objects.filter(site_id=site_id, used_at=None, expires_at__gt=now).update(expires_at=now)


def code_digest(code: str) -> str:
    # A code has 100 random bits, so a slow hash would add nothing.
    return token_digest(code.upper().replace("-", "").replace(" ", ""))


def redeem(code: str, now: datetime) -> Enrolment:
    """Exchange a code for a token, in a transaction. Raises `CodeRefused`."""
    digest = code_digest(code)
    with transaction.atomic():
        taken = EnrolmentCode.objects.filter(digest=digest, used_at=None, expires_at__gt=now).update(used_at=now)
        if taken == 0:
            raise CodeRefused(_refusal_reason(digest))
        code_row = EnrolmentCode.objects.select_related("site").get(digest=digest)
        if not Site.objects.in_use().filter(pk=code_row.site_id, has_agent=True).exists():
            raise CodeRefused(f'site "{code_row.site.name}" no longer has an agent')
        if code_row.replaces_tokens:
            AgentToken.objects.filter(site_id=code_row.site_id, revoked_at=None).update(revoked_at=now)
        return Enrolment(site=code_row.site.name, token=issue_token(code_row.site_id, now))


def _refusal_reason(digest: str) -> str:
    code_row = EnrolmentCode.objects.select_related("site").filter(digest=digest).first()
    if code_row is None:
        return "unknown code: check for typing errors"
    # With a code that was used there is a token, and a site that has one is not enrolled.
    verb = "rotate" if code_row.used_at is not None or code_row.replaces_tokens else "enrol"
    again = f"`{MANAGE} site {verb} {code_row.site.name}` prints a new one"
    if code_row.used_at is not None:
        return f"this code was used at {code_row.used_at.isoformat(' ', 'seconds')}; {again}"
    return f"this code was valid until {code_row.expires_at.isoformat(' ', 'seconds')}; {again}"


@open_to_programs("GET", "POST")
def enrol(request: HttpRequest) -> HttpResponse:
    require_supported_version(request)
    if request.method == "GET":
        return json_answer(Welcome(centre_version=probes.__version__, oldest_agent_version=OLDEST_AGENT_VERSION))
    enrolment_request = _parse_request(request)
    if is_older(enrolment_request.agent_version, OLDEST_AGENT_VERSION):
        raise RequestRefused(
            426, f"agent {enrolment_request.agent_version} is too old; install {OLDEST_AGENT_VERSION} or later"
        )
    address = client_address(request)
    _require_few_wrong_codes(address)
    try:
        return json_answer(redeem(enrolment_request.code, timezone.now()))
    except CodeRefused as refused:
        _note_wrong_code(address)
        raise RequestRefused(403, str(refused)) from refused


def _parse_request(request: HttpRequest) -> EnrolmentRequest:
    try:
        return msgspec.json.decode(read_body(request, LARGEST_REQUEST_BYTES), type=EnrolmentRequest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestRefused(400, f"not an enrolment request: {error}") from error


def _require_few_wrong_codes(address: str) -> None:
    if int(redis_client.centre().command("get", _counter(address)) or 0) >= WRONG_CODES:
        raise RequestRefused(
            429,
            f"too many wrong codes from {address}; wait {WRONG_CODES_WITHIN_S} s",
            retry_after_s=WRONG_CODES_WITHIN_S,
        )


def _note_wrong_code(address: str) -> None:
    redis_client.centre().script(COUNT_WRONG_CODE, [_counter(address)], [WRONG_CODES_WITHIN_S])


def _counter(address: str) -> str:
    # Redis counter of wrong codes; it limits load, code length prevents guessing.
    return f"wrong-enrolment-codes-{token_digest(address)}"
