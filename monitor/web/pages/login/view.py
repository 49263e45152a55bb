"""Login, with limits by address, account, or both.

Anybody can use up an account's limit, which must not lock its owner out: so a browser that logged in before has a
signed cookie and its own limit.
"""

from __future__ import annotations

import math
import secrets
import unicodedata
from typing import Any

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core import signing
from django.http import HttpRequest, HttpResponse

from monitor.accounts import rate_limits
from monitor.accounts.callers import client_network
from monitor.accounts.models import token_digest

DEVICE_COOKIE = "soundings_device"
DEVICE_AGE_S = 180 * 86_400


class Login(LoginView):
    template_name = "pages/login/login.html"
    redirect_authenticated_user = True
    next_page = "grid"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(oidc=settings.OIDC, **kwargs)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        wait_s = _wait_s(request)
        if wait_s > 0:
            response = self.render_to_response(self.get_context_data(wait_s=math.ceil(wait_s)), status=429)
            response.headers["Retry-After"] = str(math.ceil(wait_s))
            return response
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_valid(form)
        account = _account(form.get_user().get_username())
        response.set_signed_cookie(
            DEVICE_COOKIE,
            _device_of(self.request, account) or f"{account}:{secrets.token_hex(16)}",
            salt=DEVICE_COOKIE,
            max_age=DEVICE_AGE_S,
            path=self.request.path,
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )
        return response


def _wait_s(request: HttpRequest) -> float:
    address, account = client_network(request), _account(request.POST.get("username", ""))
    device = _device_of(request, account)
    limits = (
        (f"login:{address}", rate_limits.LOGIN),
        (f"login:{account}:{address}", rate_limits.LOGIN_OF_ACCOUNT_FROM_ADDRESS),
        (f"login:{device}", rate_limits.LOGIN_OF_DEVICE)
        if device
        else (f"login:{account}", rate_limits.LOGIN_OF_ACCOUNT),
    )
    return next((wait_s for key, rate in limits if (wait_s := rate_limits.wait_s(key, rate)) > 0), 0.0)


def _account(name: str) -> str:
    """Rate limit key of a typed account name, existing or not."""
    return token_digest(unicodedata.normalize("NFKC", name).strip()[:150])


def _device_of(request: HttpRequest, account: str) -> str | None:
    """Browser, if this account logged in there before."""
    try:
        device = request.get_signed_cookie(DEVICE_COOKIE, salt=DEVICE_COOKIE, max_age=DEVICE_AGE_S)
    except (KeyError, signing.BadSignature):
        return None
    return device if device is not None and device.startswith(f"{account}:") else None
