"""Addresses of Grafana's dashboards, empty where SOUNDINGS_GRAFANA_URL is not set."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlencode

from django import template
from django.conf import settings

from monitor.mesh.models import Path, Site

register = template.Library()


@register.simple_tag
def grafana_path(path: Path, packet_bytes: int, since: datetime, until: datetime) -> str:
    return _dashboard(
        "soundings-path",
        {
            "var-source": path.source.site.name,
            "var-destination": path.destination.site.name,
            "var-family": path.family,
            "var-path": path.pk,
            "var-packet_bytes": packet_bytes,
            "from": _milliseconds(since),
            "to": _milliseconds(until),
        },
    )


@register.simple_tag
def grafana_site(site: Site) -> str:
    return _dashboard("soundings-site", {"var-site": site.name})


def _dashboard(uid: str, query: dict[str, object]) -> str:
    return "" if settings.GRAFANA_URL is None else f"{settings.GRAFANA_URL}/d/{uid}?{urlencode(query)}"


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)
