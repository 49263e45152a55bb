"""An on-demand throughput test from the pages: the form of its settings, and the request for a test alone."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from monitor.api.incidents import user_name
from monitor.mesh.kinds.throughput import PROTOCOLS
from monitor.mesh.schedule import on_demand
from monitor.mesh.schedule.on_demand import NoFreeSlot, OnDemandError, Settings
from monitor.web.pages.incidents.operate import problems, refusal
from monitor.web.request.paths import path_or_404
from probes.throughput.spec import MOST_CAPTURED_PACKETS

BITS_PER_MEGABIT = 1e6


class SettingsForm(forms.Form):
    """Fields are named as the keys of a test in mesh.toml. Values are checked by `monitor.mesh.schedule.on_demand`."""

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
        data = self.cleaned_data
        rate_mbps = data["rate_mbps"]
        return Settings(
            duration_s=data["duration_s"],
            streams=data["streams"],
            window_bytes=data["window_bytes"],
            congestion_control=data["congestion_control"] or None,
            mss_bytes=data["mss_bytes"],
            block_bytes=data["block_bytes"],
            protocol=data["protocol"],
            rate_bps=None if rate_mbps is None else round(rate_mbps * BITS_PER_MEGABIT),
            reverse=data["reverse"],
            capture_packets=MOST_CAPTURED_PACKETS if data["capture"] else None,
        )


@require_POST
def run_now(request: HttpRequest, path_id: int) -> HttpResponse:
    """Request a test, and redirect to the page that shows its state."""
    path = path_or_404(path_id)
    back = f"{reverse('path', args=[path_id])}#test-now"
    form = SettingsForm(request.POST)
    if not form.is_valid():
        return refusal(request, problems(form), 422, back)
    try:
        on_demand.ask(path, form.settings, by=user_name(request), now=timezone.now())
    except OnDemandError as error:
        return refusal(request, str(error), 409 if isinstance(error, NoFreeSlot) else 422, back)
    return HttpResponseRedirect(back)
