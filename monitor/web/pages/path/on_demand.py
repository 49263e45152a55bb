"""Block "Test this path now"; static/web/on_demand.js polls `progress`, and without scripts a reload shows the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django import forms
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from monitor.api.limited_requests import ask_pings, ask_traces
from monitor.mesh.kinds.throughput import PROTOCOLS, bits
from monitor.mesh.models import Path
from monitor.mesh.schedule import on_demand, requests
from monitor.mesh.schedule.on_demand import OnDemandError, Settings
from monitor.web.pages.incidents.operate import answer, may_operate, problems
from monitor.web.pages.path.progress import OnDemandProgress, progress_of
from monitor.web.request.paths import path_or_404
from probes.transfers.spec import MOST_CAPTURED_PACKETS

# Lead of a test after pings: 10 s for the plan, 7 s for the pings, and a reserve.
PINGS_FIRST_S = 20


class SettingsForm(forms.Form):
    """Fields as the keys of a test in mesh.toml."""

    duration_s = forms.IntegerField(label="duration (s)", initial=10)
    streams = forms.IntegerField(label="streams", initial=1)
    window_bytes = forms.IntegerField(label="socket buffer (bytes)", required=False)
    congestion_control = forms.CharField(label="congestion control", max_length=16, required=False)
    mss_bytes = forms.IntegerField(label="MSS (bytes)", required=False)
    block_bytes = forms.IntegerField(label="write size (bytes)", required=False)
    protocol = forms.ChoiceField(
        label="protocol", choices=[(protocol_name, protocol_name.upper()) for protocol_name in PROTOCOLS], initial="tcp"
    )
    rate_mbps = forms.FloatField(label="rate (Mbit/s)", required=False, min_value=0, max_value=1e6)
    reverse = forms.BooleanField(label="reverse connection (receiver connects)", required=False)
    capture = forms.BooleanField(label="capture packet headers", required=False)

    @property
    def settings(self) -> Settings:
        """Raises `OnDemandError` for an invalid field."""
        if not self.is_valid():
            raise OnDemandError(problems(self))
        data = dict(self.cleaned_data)
        return Settings(
            congestion_control=data.pop("congestion_control") or None,
            rate_bps=bits(data.pop("rate_mbps")),
            capture_packets=MOST_CAPTURED_PACKETS if data.pop("capture") else None,
            **data,
        )


@dataclass(frozen=True, slots=True)
class OnDemandBlock:
    form: SettingsForm | None  # None without permission, or where the path cannot be tested
    can_throughput: bool  # a throughput test is possible too
    progress: OnDemandProgress
    needs_operator: bool  # only the permission is missing
    may_operate: bool = False

    @property
    def is_shown(self) -> bool:
        has_progress = any((self.progress.directions, self.progress.throughput, self.progress.traces))
        return self.form is not None or self.needs_operator or has_progress


def on_demand_of(request: HttpRequest, path: Path, now: datetime) -> OnDemandBlock:
    can_ping, may_ask = requests.fault_of(path) is None, may_operate(request)
    return OnDemandBlock(
        form=SettingsForm() if can_ping and may_ask else None,
        can_throughput=on_demand.fault_of(path) is None,
        progress=progress_of(path.pk, now),
        needs_operator=can_ping and not may_ask,
        may_operate=may_ask,
    )


@require_POST
def run_now(request: HttpRequest, path_id: int) -> HttpResponse:
    def ask(path: Path, who: str, now: datetime) -> None:
        on_demand.ask(path, SettingsForm(request.POST).settings, by=who, now=now)

    return _answer(request, path_id, ask)


@require_POST
def test_now(request: HttpRequest, path_id: int) -> HttpResponse:
    """Ping the path; a throughput test may follow."""

    def ask(path: Path, who: str, now: datetime) -> None:
        settings = SettingsForm(request.POST).settings if request.POST.get("throughput") else None
        with transaction.atomic():
            ask_pings(path, who, now)
            if settings is not None:
                on_demand.ask(path, settings, by=who, now=now, lead_s=PINGS_FIRST_S)

    return _answer(request, path_id, ask)


@require_POST
def trace_now(request: HttpRequest, path_id: int) -> HttpResponse:
    return _answer(request, path_id, ask_traces)


def _answer(request: HttpRequest, path_id: int, ask: Callable[[Path, str, datetime], object]) -> HttpResponse:
    path = path_or_404(path_id)
    return answer(request, lambda who, now: ask(path, who, now), f"{reverse('path', args=[path_id])}#test-now")


@require_safe
@never_cache
def progress(request: HttpRequest, path_id: int) -> JsonResponse:
    """Progress as JSON: HTML, announcement for screen readers, and whether anything runs."""
    state = progress_of(path_or_404(path_id).pk, timezone.now())
    html = render_to_string("pages/path/_on_demand_progress.html", {"progress": state}, request)
    return JsonResponse({"html": html, "announcement": state.announcement, "is_running": state.is_running})
