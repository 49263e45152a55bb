from __future__ import annotations

from urllib.parse import urlencode

from django import template
from django.conf import settings
from django.urls import reverse

from monitor.mesh.models import Path

register = template.Library()


@register.simple_tag
def break_address(path: Path) -> str:
    """Address of the form, empty where no lab runs."""
    if settings.LAB_DIR is None or path.retired_at is not None:
        return ""
    ends = f"{path.source.site.name}:{path.destination.site.name}"
    return f"{reverse('lab')}?{urlencode({'path': ends})}"
