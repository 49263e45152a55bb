"""What operators do from pages: the forms, and what comes of them.

A form asks in UTC and says so. Each carries a key of its own, so that one sent twice makes one silence. What cannot be
done is answered by a page that says why (409 where somebody else was first), and nothing is half done.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from monitor.accounts.roles import Action, may
from monitor.alerts.incidents import actions
from monitor.alerts.models import Quiet
from monitor.api.incidents import doer, status_of
from monitor.api.parameters import in_bounds
from monitor.mesh.models import Group, Path, Site

MINUTE_FORMAT = "%Y-%m-%dT%H:%M"
HOUR_S = 3600
DAY_S = 24 * HOUR_S
LENGTHS = (
    (HOUR_S, "1 hour"), (4 * HOUR_S, "4 hours"), (8 * HOUR_S, "8 hours"),
    (DAY_S, "1 day"), (3 * DAY_S, "3 days"), (7 * DAY_S, "1 week"),
)  # fmt: skip
EVERY = (("", "once"), (DAY_S, "every day"), (7 * DAY_S, "every week"), (14 * DAY_S, "every 2 weeks"))
MESH = "mesh"


class UtcMinute(forms.DateTimeField):
    """A moment to the minute, in UTC, as the browser's own input for dates and times sends it."""

    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format=MINUTE_FORMAT)
    input_formats = [MINUTE_FORMAT, f"{MINUTE_FORMAT}:%S"]

    def to_python(self, value: Any) -> datetime | None:
        at: datetime | None = super().to_python(value)
        try:
            return None if at is None else in_bounds(at.replace(tzinfo=UTC))
        except ValueError as error:
            raise forms.ValidationError(f"{error}.") from error


class ScopeForm(forms.Form):
    """What a quiet time is for, and why. `path_ids` are the paths that can be chosen beside sites and groups."""

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
    def asked_scope(self) -> actions.Scope:
        """Raises `actions.NotPossible`."""
        kind, _, name = self.cleaned_data["scope"].partition(":")
        if kind == MESH:
            return actions.Scope()
        if kind == "path":
            return actions.find_scope(path_id=int(name))
        return actions.find_scope(site=name) if kind == "site" else actions.find_scope(group=name)


class SilenceForm(ScopeForm):
    """A silence, from now on."""

    length_s = forms.TypedChoiceField(label="duration", choices=LENGTHS, coerce=int, initial=4 * HOUR_S)

    def make(self, who: str, now: datetime) -> Quiet:
        """Raises `actions.NotPossible`."""
        data = self.cleaned_data
        # To the minute, so that the same form sent again asks for the same.
        until = (now + timedelta(seconds=data["length_s"])).replace(second=0, microsecond=0)
        return actions.silence(self.asked_scope, until, data["reason"], who, now, key=data["key"] or None)


class MaintenanceForm(ScopeForm):
    """A maintenance, once or again and again."""

    starts_at = UtcMinute(label="from (UTC)")
    ends_at = UtcMinute(label="to (UTC)")
    every_s = forms.TypedChoiceField(label="repeats", choices=EVERY, coerce=int, required=False, empty_value=None)
    until = UtcMinute(label="repeat until (UTC)", required=False)
    revision = forms.IntegerField(widget=forms.HiddenInput, required=False)

    field_order: Sequence[str] = ("scope", "starts_at", "ends_at", "every_s", "until", "reason")

    @property
    def window(self) -> actions.Window:
        data = self.cleaned_data
        every = None if data["every_s"] is None else timedelta(seconds=data["every_s"])
        return actions.Window(data["starts_at"], data["ends_at"], every, data["until"] if every else None)

    def make(self, who: str, now: datetime) -> Quiet:
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

    def change(self, quiet_id: int, who: str, now: datetime) -> Quiet:
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
    """Whether the page shows buttons."""
    return may(request.user, Action.OPERATE)


def maintenance_form_of(one: Quiet, posted: QueryDict | None = None) -> MaintenanceForm:
    """The form that changes a maintenance, filled in with what it is, or with what was posted."""
    form = MaintenanceForm(
        posted,
        paths=() if one.path is None else (one.path,),
        initial={
            "scope": scope_value(one),
            "starts_at": one.starts_at.replace(tzinfo=None),
            "ends_at": one.ends_at.replace(tzinfo=None),
            "every_s": one.every_s or "",
            "until": None if one.until is None else one.until.replace(tzinfo=None),
            "reason": one.reason,
            "revision": one.revision,
        },
    )
    field = form.fields["every_s"]
    assert isinstance(field, forms.TypedChoiceField)
    field.choices = every_choices(one)
    return form


def every_choices(one: Quiet) -> list[tuple[Any, str]]:
    """Those of the form, and how often this one comes."""
    known = [value for value, _ in EVERY]
    own = [] if one.every_s is None or one.every_s in known else [(one.every_s, f"every {one.every_s:,} s")]
    return [*EVERY, *own]


def scope_value(one: Quiet) -> str:
    """What a form has for the scope of a quiet time."""
    if one.path_id is not None:
        return f"path:{one.path_id}"
    if one.site is not None:
        return f"site:{one.site.name}"
    return MESH if one.group is None else f"group:{one.group.name}"


def answer(request: HttpRequest, do: Callable[[str, datetime], object], to: str) -> HttpResponse:
    """Do it as whoever asks, and lead back; or say why not."""
    try:
        do(doer(request), timezone.now())
    except actions.NotPossible as error:
        return refusal(request, str(error), status_of(error), to)
    return HttpResponseRedirect(to)


def refusal(request: HttpRequest, said: str, status: int, to: str) -> HttpResponse:
    """A page that says why something was not done."""
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
    """Also from the page of an incident, which `incident` leads back to."""
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
    """The path that a form's scope or a page's address names, if there is one in use."""
    kind, _, number = value.partition(":")
    if kind != "path" or not (number.isascii() and number.isdigit() and len(number) <= 10):
        return ()
    return tuple(Path.objects.with_hosts().filter(id=int(number), retired_at=None))


def _posted_path(request: HttpRequest) -> tuple[Path, ...]:
    return posted_paths(request.POST.get("scope", ""))


def _incident(incident_id: int) -> str:
    return reverse("incident", args=[incident_id])


def problems(form: forms.Form) -> str:
    """What is wrong with a form, in one line."""
    found_in = ((form.fields[name].label or name, " ".join(map(str, found))) for name, found in form.errors.items())
    return "; ".join(f"{label}: {found}" for label, found in found_in)


def _scope_choices(paths: tuple[Path, ...], sites: tuple[str, ...]) -> list[tuple[str, Any]]:
    """The whole mesh, and what is in it: what is named first comes first."""
    named = [(f"path:{path.pk}", str(path)) for path in paths]
    all_sites = list(Site.objects.in_use().values_list("name", flat=True))
    found: list[tuple[str, Any]] = [
        ("paths", named),
        ("sites", [(f"site:{name}", f"site {name}") for name in sorted(all_sites, key=lambda name: name not in sites)]),
        (
            "groups",
            [(f"group:{name}", f"group {name}") for name in Group.objects.in_use().values_list("name", flat=True)],
        ),
        ("everything", [(MESH, "the whole mesh")]),
    ]
    return [one for one in found if one[1]]
