"""Addresses of single sign-on: to the provider, back, and logout."""

from __future__ import annotations

import logging
from typing import Any

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LogoutView
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from monitor.accounts import rate_limits, single_sign_on
from monitor.accounts.callers import client_network
from monitor.accounts.single_sign_on import Denied, ProviderDown, SignOnError

log = logging.getLogger(__name__)


def open_to_all(view: Any) -> Any:
    view.login_required = False
    return view


@open_to_all
@require_safe
@never_cache
def begin(request: HttpRequest) -> HttpResponse:
    _require_provider()
    wait_s = rate_limits.wait_s(f"sso:{client_network(request)}", rate_limits.LOGIN)
    if wait_s > 0:
        response = _refused(request, f"Too many attempts. Wait {int(wait_s) + 1} s.", 429)
        response.headers["Retry-After"] = str(int(wait_s) + 1)
        return response
    request.session[single_sign_on.NEXT] = request.GET.get("next", "")
    try:
        return single_sign_on.begin(request, request.build_absolute_uri(reverse("sso-callback")))
    except SignOnError as error:
        return _failed(request, error)


@open_to_all
@require_safe
@never_cache
def callback(request: HttpRequest) -> HttpResponse:
    _require_provider()
    target = request.session.get(single_sign_on.NEXT, "")
    try:
        single_sign_on.finish(request)
    except SignOnError as error:
        return _failed(request, error)
    is_ours = url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure())
    return HttpResponseRedirect(target if is_ours else reverse("grid"))


class Logout(LogoutView):
    """Also ends the session at the provider (OpenID Connect RP-Initiated Logout 1.0)."""

    next_page = "login"

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        at_provider = single_sign_on.end_session_url(request, request.build_absolute_uri(reverse("login")))
        response = super().post(request, *args, **kwargs)
        return response if at_provider is None else HttpResponseRedirect(at_provider)


def _require_provider() -> None:
    if settings.OIDC is None:
        raise Http404("Single sign-on is not set up: docs/sso.md")


def _failed(request: HttpRequest, error: SignOnError) -> HttpResponse:
    log.warning("single sign-on failed: %s", error, exc_info=error.__cause__)
    status = 503 if isinstance(error, ProviderDown) else 403
    advice = "" if isinstance(error, Denied) else " Try again, or log in with an account of Soundings."
    return _refused(request, f"{error}{advice}", status)


def _refused(request: HttpRequest, problem: str, status: int) -> HttpResponse:
    context = {"form": AuthenticationForm(request), "problem": problem, "next": "", "oidc": settings.OIDC}
    return render(request, "pages/login/login.html", context, status=status)
