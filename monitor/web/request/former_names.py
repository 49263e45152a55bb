"""Redirect a site's earlier name, such as /sites/old/ or ?site=old, only where there is no such page: another answer
costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from monitor.mesh.renaming import current_names

NOT_FOUND = (400, 404, 422)
Answer = Callable[[HttpRequest], HttpResponse]


class FormerNames:
    """Innermost middleware: it reads with the reader's rights."""

    def __init__(self, get_response: Answer) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        # Without a view nobody has checked what the reader may read.
        has_view = request.resolver_match is not None
        if has_view and response.status_code in NOT_FOUND and request.method in ("GET", "HEAD"):
            return _redirect(request) or response
        return response


def _redirect(request: HttpRequest) -> HttpResponse | None:
    parts, query = request.path.split("/"), request.GET.copy()
    names = {*parts, *(value for values in dict(query.lists()).values() for value in values)} - {""}
    current = current_names(sorted(names)) if names else {}
    if not current:
        return None
    for key, values in list(query.lists()):
        query.setlist(key, [current.get(value, value) for value in values])
    path = "/".join(quote(current.get(part, part)) for part in parts)
    return HttpResponseRedirect(f"{path}?{query.urlencode()}" if query else path)
