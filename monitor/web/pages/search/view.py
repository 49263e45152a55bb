"""Search page, and suggestions in the header."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_safe

from monitor.mesh.models import Mesh
from monitor.web.pages.search.load import only_exact, search

LISTED = 25
SUGGESTED = 4
SUGGESTIONS_AGE_S = 10


@require_safe
def search_page(request: HttpRequest) -> HttpResponse:
    """Redirect to a single exact hit, unless `all` is given."""
    text = request.GET.get("q", "")
    hits = search(text, LISTED)
    target = only_exact(hits)
    if target is not None and "all" not in request.GET:
        return HttpResponseRedirect(target)
    kinds = [(kind, list(group)) for kind, group in groupby(hits, lambda hit: hit.kind)]
    context = {"mesh": Mesh.objects.first(), "search_text": text, "kinds": kinds, "listed": LISTED}
    return render(request, "pages/search/search.html", context)


@require_safe
def suggestions(request: HttpRequest) -> JsonResponse:
    hits = search(request.GET.get("q", ""), SUGGESTED)
    fields = ("kind", "label", "detail", "address")
    response = JsonResponse({"hits": [{name: asdict(hit)[name] for name in fields} for hit in hits]})
    patch_cache_control(response, private=True, max_age=SUGGESTIONS_AGE_S)
    return response
