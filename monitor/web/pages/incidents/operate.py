"""Operators' actions on pages.

An idempotency key prevents a second silence. A refused action changes nothing and is answered with the reason (409 if
somebody else was first).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from monitor.accounts.roles import Action, may
from monitor.alerts.incidents import actions
from monitor.alerts.models import QuietPeriod
from monitor.api.incidents import status_of, user_name
from monitor.mesh.models import Group, Path, Site
from monitor.mesh.schedule.on_demand import OnDemandError
from monitor.web.request.zoned_forms import ZonedForm, ZonedMinute

HOUR_S = 3600
DAY_S = 24 * HOUR_S
LENGTHS = (
    (HOUR_S, "1 hour"), (4 * HOUR_S, "4 hours"), (8 * HOUR_S, "8 hours"),
    (DAY_S, "1 day"), (3 * DAY_S, "3 days"), (7 * DAY_S, "1 week"),
)  # fmt: skip
EVERY = (("", "once"), (DAY_S, "every day"), (7 * DAY_S, "every week"), (14 * DAY_S, "every 2 weeks"))
MESH = "mesh"


class ScopeForm(forms.Form):
    """A form's scope and reason; `paths` can be chosen besides sites and groups."""

    scope = forms.ChoiceField(label="scope")
    reason = forms.CharField(label="reason", max_length=1000, required=False, strip=True)
    key = forms.CharField(widget=forms.HiddenInput, max_length=200, required=False)

    def __init__(self, *args: Any, paths: tuple[Path, ...] = (), sites: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["scope"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = _scope_choices(paths, sites)
        self.initial.setdefault("key", secrets.token_urlsafe(12))

    @property
    def asked_scope(self) -> actions.QuietScope:
        """Raises `actions.NotPossible`."""
        kind, _, name = self.cleaned_data["scope"].partition(":")
        if kind == MESH:
            return actions.QuietScope()
        if kind == "path":
            return actions.find_scope(path_id=int(name))
        return actions.find_scope(site=name) if kind == "site" else actions.find_scope(group=name)


class SilenceForm(ScopeForm):
    length_s = forms.TypedChoiceField(label="duration", choices=LENGTHS, coerce=int, initial=4 * HOUR_S)

    def make(self, who: str, now: datetime) -> QuietPeriod:
        """Raises `actions.NotPossible`."""
        data = self.cleaned_data
        # To the minute, so that the same form sent again asks for the same.
        until = (now + timedelta(seconds=data["length_s"])).replace(second=0, microsecond=0)
        return actions.silence(self.asked_scope, until, data["reason"], who, now, key=data["key"] or None)


class MaintenanceForm(ZonedForm, ScopeForm):
    starts_at = ZonedMinute(label="from")
    ends_at = ZonedMinute(label="to", is_end=True)
    every_s = forms.TypedChoiceField(label="repeats", choices=EVERY, coerce=int, required=False, empty_value=None)
    until = ZonedMinute(label="repeat until", is_end=True, required=False)
    revision = forms.IntegerField(widget=forms.HiddenInput, required=False)

    field_order: Sequence[str] = ("scope", "starts_at", "ends_at", "every_s", "until", "reason")

    @property
    def window(self) -> actions.MaintenanceTimes:
        data = self.cleaned_data
        every = None if data["every_s"] is None else timedelta(seconds=data["every_s"])
        return actions.MaintenanceTimes(data["starts_at"], data["ends_at"], every, data["until"] if every else None)

    def make(self, who: str, now: datetime) -> QuietPeriod:
        """Raises `actions.NotPossible`."""
        window, data = self.window, self.cleaned_data
        return actions.maintain(
            self.asked_scope,
            window.starts_at,
            window.ends_at,
            data["reason"],
            who,
            now,
            every=window.every,
            until=window.until,
            key=data["key"] or None,
        )

    def change(self, quiet_id: int, who: str, now: datetime) -> QuietPeriod:
        """Raises `actions.NotPossible`."""
        data = self.cleaned_data
        revision = -1 if data["revision"] is None else data["revision"]
        return actions.change(quiet_id, revision, self.asked_scope, self.window, data["reason"], who, now)


class CommentForm(forms.Form):
    text = forms.CharField(label="comment", max_length=4000, strip=True, widget=forms.Textarea(attrs={"rows": 2}))
    key = forms.CharField(widget=forms.HiddenInput, max_length=200, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial.setdefault("key", secrets.token_urlsafe(12))


def may_operate(request: HttpRequest) -> bool:
    return may(request.user, Action.OPERATE)


def maintenance_form_of(quiet: QuietPeriod, posted: QueryDict | None = None) -> MaintenanceForm:
    """Fill the form with stored or `posted` values."""
    form = MaintenanceForm(
        posted,
        paths=() if quiet.path is None else (quiet.path,),
        initial={
            "scope": scope_value(quiet),
            "starts_at": quiet.starts_at,
            "ends_at": quiet.ends_at,
            "every_s": quiet.every_s or "",
            "until": quiet.until,
            "reason": quiet.reason,
            "revision": quiet.revision,
        },
    )
    field = form.fields["every_s"]
    assert isinstance(field, forms.TypedChoiceField)
    field.choices = every_choices(quiet)
    return form


def every_choices(quiet: QuietPeriod) -> list[tuple[Any, str]]:
    intervals_s = [value for value, _ in EVERY]
    own = (
        [] if quiet.every_s is None or quiet.every_s in intervals_s else [(quiet.every_s, f"every {quiet.every_s:,} s")]
    )
    return [*EVERY, *own]


def scope_value(quiet: QuietPeriod) -> str:
    if quiet.path_id is not None:
        return f"path:{quiet.path_id}"
    if quiet.site is not None:
        return f"site:{quiet.site.name}"
    return MESH if quiet.group is None else f"group:{quiet.group.name}"


def answer(request: HttpRequest, do: Callable[[str, datetime], object], to: str) -> HttpResponse:
    """Run `do` as the current user and redirect; on refusal answer with the reason."""
    try:
        do(user_name(request), timezone.now())
    except (actions.ActionRefused, OnDemandError) as error:
        return refusal(request, str(error), status_of(error), to)
    return HttpResponseRedirect(to)


def refusal(request: HttpRequest, said: str, status: int, to: str) -> HttpResponse:
    title = "Somebody else was first" if status == 409 else "Not done"
    said = f"{said[:1].upper()}{said[1:]}."
    return render(request, "pages/incidents/not_done.html", {"title": title, "said": said, "to": to}, status=status)


@require_POST
def acknowledge(request: HttpRequest, incident_id: int) -> HttpResponse:
    return answer(request, lambda who, now: actions.acknowledge(incident_id, who, now), _incident(incident_id))


@require_POST
def unacknowledge(request: HttpRequest, incident_id: int) -> HttpResponse:
    return answer(request, lambda who, now: actions.unacknowledge(incident_id, who, now), _incident(incident_id))


@require_POST
def comment(request: HttpRequest, incident_id: int) -> HttpResponse:
    form, to = CommentForm(request.POST), _incident(incident_id)
    if not form.is_valid():
        return refusal(request, problems(form), 422, to)
    text, key = form.cleaned_data["text"], form.cleaned_data["key"] or None
    return answer(request, lambda who, now: actions.comment(incident_id, text, who, now, key=key), f"{to}#trail")


@require_POST
def silence(request: HttpRequest) -> HttpResponse:
    """Create a silence; `incident` leads back to its page."""
    incident_id = request.POST.get("incident", "")
    is_number = incident_id.isascii() and incident_id.isdigit() and len(incident_id) <= 18
    back = _incident(int(incident_id)) if is_number else reverse("maintenance")
    form = SilenceForm(request.POST, paths=_posted_path(request))
    if not form.is_valid():
        return refusal(request, problems(form), 422, back)
    return answer(request, form.make, back)


@require_POST
def end(request: HttpRequest, quiet_id: int) -> HttpResponse:
    return answer(request, lambda who, now: actions.end(quiet_id, who, now), reverse("maintenance"))


def posted_paths(value: str) -> tuple[Path, ...]:
    kind, _, number = value.partition(":")
    if kind != "path" or not (number.isascii() and number.isdigit() and len(number) <= 10):
        return ()
    return tuple(Path.objects.with_hosts().filter(id=int(number), retired_at=None))


def _posted_path(request: HttpRequest) -> tuple[Path, ...]:
    return posted_paths(request.POST.get("scope", ""))


def _incident(incident_id: int) -> str:
    return reverse("incident", args=[incident_id])


def problems(form: forms.Form) -> str:
    found_in = ((form.fields[name].label or name, " ".join(map(str, errors))) for name, errors in form.errors.items())
    return "; ".join(f"{label}: {errors}" for label, errors in found_in)


def _scope_choices(paths: tuple[Path, ...], sites: tuple[str, ...]) -> list[tuple[str, Any]]:
    named = [(f"path:{path.pk}", str(path)) for path in paths]
    all_sites = list(Site.objects.in_use().values_list("name", flat=True))
    choices: list[tuple[str, Any]] = [
        ("paths", named),
        ("sites", [(f"site:{name}", f"site {name}") for name in sorted(all_sites, key=lambda name: name not in sites)]),
        (
            "groups",
            [(f"group:{name}", f"group {name}") for name in Group.objects.in_use().values_list("name", flat=True)],
        ),
        ("everything", [(MESH, "the whole mesh")]),
    ]
    return [choice for choice in choices if choice[1]]
