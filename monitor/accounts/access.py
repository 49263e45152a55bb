"""Access control for pages and the users' API: login, role, token or shared link.

A token alone judges its request, also where reading is open; SOUNDINGS_PUBLIC_STATUS=1 opens only the status page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.urls import reverse

from monitor.accounts import callers, rate_limits, read_limits, shared_links
from monitor.accounts.models import SharedLink, UserToken, token_digest
from monitor.accounts.origin import is_local
from monitor.accounts.roles import Action, action_of, may
from probes.commands.own_command import MANAGE

# Programs get a status instead of the login page.
FOR_PROGRAMS = ("/api/", "/metrics")
LOG_IN = (
    f"log in first, or send Authorization: Bearer TOKEN; `{MANAGE} user token NAME` creates it, "
    "SOUNDINGS_PUBLIC_READ=1 allows reading without login"
)
UNKNOWN_TOKEN = f"this token is unknown or revoked; `{MANAGE} user token NAME` creates another"
TOKEN_ONLY_READS = (
    f"this token may only read; log in, or create a token that may operate: `{MANAGE} user token NAME --operate`"
)

View = TypeVar("View", bound=Callable[..., Any])
Handler = Callable[[HttpRequest], HttpResponse]


def open_to_the_public(view: View) -> View:
    """Require no login where SOUNDINGS_PUBLIC_STATUS is 1."""
    view.is_public_status = True  # type: ignore[attr-defined]
    return view


class Access:
    """Redirect to the login, or return an error status to programs."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response
        self._csrf = CsrfViewMiddleware(get_response)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        read_limits.unlimit()  # should the answer before not have been closed
        response = self.get_response(request)
        if getattr(request, "shared_link", None) is not None:
            shared_links.close(response)
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any
    ) -> HttpResponse | None:
        """Return None where the view may respond, with only the rows that the reader may read."""
        if not getattr(view, "login_required", True):
            return None
        if settings.PUBLIC_STATUS and getattr(view, "is_public_status", False):
            return None
        refusal = self._refuse(request, action_of(view, request))
        return _limit(request) if refusal is None else refusal

    def _refuse(self, request: HttpRequest, action: Action) -> HttpResponse | None:
        is_for_programs = request.path.startswith(FOR_PROGRAMS)
        token = _bearer_token(request)
        if token is not None:
            # Tokens do not open pages, but an invalid token gets an error there too.
            refusal = _refuse_token(request, token, action) if is_for_programs else _token_or_refusal(request, token)[1]
            if refusal is not None or is_for_programs:
                return refusal
        if action is Action.READ and (settings.PUBLIC_READ or (settings.LOCAL_READ and is_local(request))):
            return None
        if is_for_programs:
            return self._refuse_program(request, action)
        if not request.user.is_authenticated:
            if action is Action.READ and (link := shared_links.link_for(request)) is not None:
                request.shared_link = link  # type: ignore[attr-defined]
                return None
            return HttpResponseRedirect(f"{reverse('login')}?{urlencode({'next': request.get_full_path()})}")
        if not may(request.user, action):
            raise PermissionDenied(_missing_role(action, request.user.get_username()))
        return None

    def _refuse_program(self, request: HttpRequest, action: Action) -> HttpResponse | None:
        if not request.user.is_authenticated:
            return _refusal(401, LOG_IN)
        if not may(request.user, action):
            return _refusal(403, _missing_role(action, request.user.get_username()))
        # Views of the API are exempt from Django's own check, which would ask it of programs with tokens too.
        return self._csrf.process_view(request, _csrf_placeholder, (), {})


def may_operate(request: HttpRequest) -> bool:
    """Whether role and token permit the request to operate."""
    return may(request.user, Action.OPERATE) and not getattr(request, "is_read_only", False)


def _limit(request: HttpRequest) -> HttpResponse | None:
    link: SharedLink | None = getattr(request, "shared_link", None)
    reader = request.user if link is None else link.owner
    if not isinstance(reader, User):
        return None
    sites = read_limits.readable_sites(reader, getattr(request, "token", None))
    if sites is None:
        return None
    try:
        read_limits.limit(sites, reader.get_username() if link is None else "")
    except read_limits.CannotLimit as error:
        return _refusal(503, str(error))
    return None


def _bearer_token(request: HttpRequest) -> str | None:
    # Bearer token, or None: other schemes, such as Basic, belong to a proxy.
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _token_or_refusal(request: HttpRequest, token: str) -> tuple[UserToken | None, HttpResponse | None]:
    digest = token_digest(token)
    user_token = (
        UserToken.objects.select_related("user").filter(digest=digest, revoked_at=None, user__is_active=True).first()
    )
    if user_token is None:
        return None, _refusal(401, UNKNOWN_TOKEN)
    callers.note_valid_token(request, digest)
    wait_s = rate_limits.wait_s(f"user:{digest}", rate_limits.SCRIPT)
    if wait_s > 0:
        response = _refusal(429, "rate limit of this token exceeded; slow down")
        response["Retry-After"] = str(int(wait_s) + 1)
        return None, response
    return user_token, None


def _refuse_token(request: HttpRequest, token: str, action: Action) -> HttpResponse | None:
    user_token, refusal = _token_or_refusal(request, token)
    if user_token is None:
        return refusal
    if action is not Action.READ and not user_token.may_operate:
        return _refusal(403, TOKEN_ONLY_READS)
    if not may(user_token.user, action):
        return _refusal(403, _missing_role(action, user_token.user.get_username()))
    request.user = user_token.user
    request.token = user_token  # type: ignore[attr-defined]
    request.is_read_only = not user_token.may_operate  # type: ignore[attr-defined]
    return None


def _csrf_placeholder(request: HttpRequest) -> HttpResponse:
    # Never called: stands for a view that is not exempt from CSRF checks.
    raise NotImplementedError


def _missing_role(action: Action, name: str) -> str:
    return f"{name} has no role that may {action}; an administrator can grant it: `{MANAGE} user role {name} ROLE`"


def _refusal(status: int, detail: str) -> HttpResponse:
    response = JsonResponse({"detail": detail}, status=status)
    if status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="soundings"'
    return response
