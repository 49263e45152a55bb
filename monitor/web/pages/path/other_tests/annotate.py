"""Operators' annotations of a path or site."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from monitor.alerts.incidents.actions import QuietScope, find_scope
from monitor.alerts.incidents.annotations import annotate as store_annotation
from monitor.alerts.incidents.annotations import remove
from monitor.mesh.models import Path
from monitor.web.pages.incidents.operate import answer, problems, refusal
from monitor.web.request.paths import path_or_404
from monitor.web.request.zoned_forms import ZonedForm, ZonedMinute


class SiteAnnotationForm(ZonedForm, forms.Form):
    at = ZonedMinute(label="at")
    text = forms.CharField(label="change", max_length=4000, strip=True)


class AnnotationForm(ZonedForm, forms.Form):
    at = ZonedMinute(label="at")
    scope = forms.ChoiceField(label="of")
    text = forms.CharField(label="change", max_length=4000, strip=True)

    def __init__(self, path: Path, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["scope"]
        assert isinstance(field, forms.ChoiceField)
        ends = dict.fromkeys((path.source.site.name, path.destination.site.name))
        field.choices = [("path", "this path"), *((f"site:{name}", f"site {name}") for name in ends)]
        self._path_id = path.pk

    @property
    def noted_scope(self) -> QuietScope:
        """Raises `ActionRefused`."""
        kind, _, name = self.cleaned_data["scope"].partition(":")
        return find_scope(path_id=self._path_id) if kind == "path" else find_scope(site=name)


@require_POST
def annotate(request: HttpRequest, path_id: int) -> HttpResponse:
    form, back = AnnotationForm(path_or_404(path_id), request.POST), _back(path_id)
    return _store(request, form, lambda: form.noted_scope, back)


@require_POST
def remove_annotation(request: HttpRequest, path_id: int, annotation_id: int) -> HttpResponse:
    return answer(request, lambda who, now: remove(annotation_id, who, now), _back(path_id))


@require_POST
def annotate_site(request: HttpRequest, name: str) -> HttpResponse:
    return _store(request, SiteAnnotationForm(request.POST), lambda: find_scope(site=name), _back_to_site(name))


@require_POST
def remove_annotation_of_site(request: HttpRequest, name: str, annotation_id: int) -> HttpResponse:
    return answer(request, lambda who, now: remove(annotation_id, who, now), _back_to_site(name))


def _store(
    request: HttpRequest,
    form: SiteAnnotationForm | AnnotationForm,
    noted_scope: Callable[[], QuietScope],
    back: str,
) -> HttpResponse:
    if not form.is_valid():
        return refusal(request, problems(form), 422, back)

    def make(who: str, now: datetime) -> object:
        return store_annotation(noted_scope(), form.cleaned_data["at"], form.cleaned_data["text"], who, now)

    return answer(request, make, back)


def _back_to_site(name: str) -> str:
    return f"{reverse('site', args=[name])}#annotations"


def _back(path_id: int) -> str:
    return f"{reverse('path', args=[path_id])}?tab=changes#annotations"
