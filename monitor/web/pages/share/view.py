"""Shared links: operators manage them at `/share/`; visitors open `/shared/TOKEN/`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from monitor.accounts import shared_links
from monitor.accounts.models import SharedLink
from monitor.accounts.roles import Action, needs
from monitor.accounts.shared_links import DEFAULT_DAYS, MOST_DAYS, CannotShare
from monitor.alerts.models import AuditRecord


class ShareForm(forms.Form):
    address = forms.CharField(label="Page", max_length=2000, help_text="Its address here, as /paths/5/?period=week")
    days = forms.IntegerField(label="Days", min_value=1, max_value=MOST_DAYS, initial=DEFAULT_DAYS)


@needs(Action.OPERATE)
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def share_page(request: HttpRequest) -> HttpResponse:
    form = ShareForm(request.POST or None, initial={"address": request.GET.get("address", "")})
    if request.method == "POST" and form.is_valid():
        try:
            return _page(request, form, _create(request, form.cleaned_data))
        except CannotShare as error:
            form.add_error("address", str(error))
    return _page(request, form)


@needs(Action.OPERATE)
@require_POST
def revoke(request: HttpRequest, link_id: int) -> HttpResponse:
    link = SharedLink.objects.filter(pk=link_id).first()
    if link is None:
        raise Http404("There is no such link.")
    now = timezone.now()
    if SharedLink.objects.filter(pk=link_id, revoked_at=None).update(revoked_at=now):
        _note(request, f"revoked the link to {link.address}")
    return HttpResponseRedirect(reverse("share"))


@require_safe
@never_cache
def open_link(request: HttpRequest, token: str) -> HttpResponse:
    link = shared_links.valid_link(token)
    if link is None:
        raise Http404("This link does not exist, has expired, or was revoked.")
    response = HttpResponseRedirect(link.address)
    response.set_cookie(
        shared_links.COOKIE,
        token,
        expires=link.expires_at,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    shared_links.close(response)
    return response


open_link.login_required = False  # type: ignore[attr-defined]


def _create(request: HttpRequest, values: dict[str, Any]) -> str:
    assert isinstance(request.user, User)
    now = timezone.now()
    link, token = shared_links.create(request.user, values["address"], now, now + timedelta(days=values["days"]))
    _note(request, f"shared {link.address} until {link.expires_at:%Y-%m-%d %H:%M} UTC")
    return request.build_absolute_uri(reverse("shared", args=[token]))


def _note(request: HttpRequest, action: str) -> None:
    AuditRecord.objects.create(at=timezone.now(), who=request.user.get_username(), what=action)


def _page(request: HttpRequest, form: ShareForm, new_link: str | None = None) -> HttpResponse:
    links = SharedLink.objects.select_related("owner").filter(revoked_at=None, expires_at__gt=timezone.now())
    context = {"form": form, "new_link": new_link, "links": links.order_by("expires_at")}
    return render(request, "pages/share/share.html", context)
