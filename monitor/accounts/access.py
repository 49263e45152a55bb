"""Who may see the pages and use the users' API, and do what there.

They want Django's login, and a role that allows what is asked (`monitor.accounts.roles`). Reading wants none with
SOUNDINGS_PUBLIC_READ=1, and none on this machine's own loopback with SOUNDINGS_LOCAL_READ=1, which `manage.py up` sets.
Programs show a token of a user, which reads, and operates if it was made for that; a request with a token is judged by
it before anything else, also where reading is open. Agents have tokens of their own (`monitor.agents.views`), and are
let through here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.urls import reverse

from monitor.accounts import rates
from monitor.accounts.models import UserToken, token_digest
from monitor.accounts.origin import is_local
from monitor.accounts.roles import Action, action_of, may

FOR_PROGRAMS = ("/api/", "/metrics")
"""What begins with these is asked by programs, which get a status and no login."""
LOG_IN = (
    "log in first, or send Authorization: Bearer TOKEN; `manage.py user token NAME` makes one, "
    "SOUNDINGS_PUBLIC_READ=1 opens reading to everybody"
)
UNKNOWN_TOKEN = "this token is unknown or revoked; `manage.py user token NAME` makes a new one"
TOKEN_ONLY_READS = (
    "a token only reads; log in to change something, or make one that may operate: "
    "`manage.py user token NAME --operate`"
)

Handler = Callable[[HttpRequest], HttpResponse]


class Access:
    """Middleware: lets a request through to its view, or sends people to the login, and programs a status."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response
        self._csrf = CsrfViewMiddleware(get_response)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any
    ) -> HttpResponse | None:
        """None where the view may answer."""
        if not getattr(view, "login_required", True):
            return None
        action = action_of(view, request)
        is_for_programs = request.path.startswith(FOR_PROGRAMS)
        token = _bearer_token(request)
        if token is not None:
            # No token opens a page, but a wrong one is told so there, too.
            refusal = _refuse_token(request, token, action) if is_for_programs else _token_or_refusal(token)[1]
            if refusal is not None or is_for_programs:
                return refusal
        if action is Action.READ and (settings.PUBLIC_READ or (settings.LOCAL_READ and is_local(request))):
            return None
        if is_for_programs:
            return self._refuse_program(request, action)
        if not request.user.is_authenticated:
            return HttpResponseRedirect(f"{reverse('login')}?{urlencode({'next': request.get_full_path()})}")
        if not may(request.user, action):
            raise PermissionDenied(_lacks(action, request.user.get_username()))
        return None

    def _refuse_program(self, request: HttpRequest, action: Action) -> HttpResponse | None:
        if not request.user.is_authenticated:
            return _refusal(401, LOG_IN)
        if not may(request.user, action):
            return _refusal(403, _lacks(action, request.user.get_username()))
        # Views of the API are exempt from Django's own check, which would ask it of programs with tokens too.
        return self._csrf.process_view(request, _asked_for_csrf, (), {})


def _bearer_token(request: HttpRequest) -> str | None:
    """The token of a request; None where it shows none. Other schemes, such as Basic, belong to a proxy in front."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _token_or_refusal(token: str) -> tuple[UserToken | None, HttpResponse | None]:
    """A user's token that holds and does not ask too often, or the answer that it gets."""
    digest = token_digest(token)
    user_token = (
        UserToken.objects.select_related("user").filter(digest=digest, revoked_at=None, user__is_active=True).first()
    )
    if user_token is None:
        return None, _refusal(401, UNKNOWN_TOKEN)
    wait_s = rates.wait_s(f"user:{digest}", rates.SCRIPT)
    if wait_s > 0:
        response = _refusal(429, "this token asks too often; slow down")
        response["Retry-After"] = str(int(wait_s) + 1)
        return None, response
    return user_token, None


def _refuse_token(request: HttpRequest, token: str, action: Action) -> HttpResponse | None:
    """None where the token's user may do this by a token; the request is that user's from here on."""
    user_token, refusal = _token_or_refusal(token)
    if user_token is None:
        return refusal
    if action is not Action.READ and not user_token.may_operate:
        return _refusal(403, TOKEN_ONLY_READS)
    if not may(user_token.user, action):
        return _refusal(403, _lacks(action, user_token.user.get_username()))
    request.user = user_token.user
    return None


def _asked_for_csrf(request: HttpRequest) -> HttpResponse:
    """Stands for a view that is not exempt; it is never called."""
    raise NotImplementedError


def _lacks(action: Action, name: str) -> str:
    return f"{name} has no role that may {action}; who runs the centre gives one: `manage.py user role {name} ROLE`"


def _refusal(status: int, detail: str) -> HttpResponse:
    response = JsonResponse({"detail": detail}, status=status)
    if status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="soundings"'
    return response
