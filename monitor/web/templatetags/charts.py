"""Template tags of interactive charts."""

from __future__ import annotations

import logging

from django import template
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import format_html, json_script
from django.utils.safestring import SafeString

from monitor.web.charts.bundle import BundleError, bundle_version
from monitor.web.charts.compiled import compiled
from monitor.web.charts.marks import Spec

log = logging.getLogger(__name__)
register = template.Library()


@register.simple_tag
def chart_scripts() -> SafeString:
    bundle = reverse("chart-bundle", args=[bundle_version()])
    return format_html('<script src="{}" data-bundle="{}" defer></script>', static("web/charts.js"), bundle)


@register.filter
def chart_script(spec: Spec, element_id: str) -> SafeString:
    """Compiled chart as JSON in an element, or why there is none."""
    try:
        return json_script(compiled(spec), element_id)
    except (BundleError, OSError) as error:
        log.warning("a chart could not be compiled", exc_info=True)
        return json_script({"failure": str(error)}, element_id)
