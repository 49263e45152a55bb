"""Settings page."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from monitor.accounts import preferences
from monitor.accounts.preferences import Preferences, Theme
from monitor.accounts.roles import Action, needs
from monitor.web.request.preferences import preferences_of, set_cookies

THEMES = {Theme.SYSTEM: "as the system", Theme.LIGHT: "light", Theme.DARK: "dark"}


class PreferencesForm(forms.Form):
    time_zone = forms.ChoiceField(
        label="Time zone", choices=lambda: [(name, name) for name in preferences.zone_names()]
    )
    theme = forms.ChoiceField(label="Theme", choices=[(theme.value, label) for theme, label in THEMES.items()])


@needs(Action.READ)
@require_http_methods(["GET", "HEAD", "POST"])
def preferences_page(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        chosen = preferences_of(request)
        initial: dict[str, Any] = {"theme": chosen.theme.value, "time_zone": chosen.time_zone}
        return _page(request, PreferencesForm(initial=initial))
    form = PreferencesForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    chosen = Preferences(Theme(form.cleaned_data["theme"]), form.cleaned_data["time_zone"])
    preferences.store(request.user, chosen)
    response = HttpResponseRedirect(f"{reverse('preferences')}?saved=1")
    set_cookies(response, chosen)
    return response


def _page(request: HttpRequest, form: PreferencesForm, status: int = 200) -> HttpResponse:
    context = {"form": form, "now": timezone.now(), "is_saved": "saved" in request.GET}
    return render(request, "pages/preferences/preferences.html", context, status=status)
