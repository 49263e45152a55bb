from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from monitor.web.charts import bundle

YEAR_S = 365 * 86_400


@require_safe
def chart_bundle(request: HttpRequest, version: str) -> HttpResponse:
    """Serve Vega; the address has the version, so caches may keep it for ever."""
    if version != bundle.bundle_version():
        raise Http404(f"The chart bundle is of version {bundle.bundle_version()}.")
    response = HttpResponse(bundle.bundle_gzip(), content_type="text/javascript; charset=utf-8")
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Cache-Control"] = f"public, max-age={YEAR_S}, immutable"
    return response
