"""Page of all centres."""

from __future__ import annotations

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from monitor.accounts.origin import is_local
from monitor.accounts.read_limits import is_limited
from monitor.archive.upkeep import freshness
from monitor.centres.configured import FORM, VARIABLE
from monitor.mesh.models import Mesh
from monitor.overview.mesh_state import load_mesh_state
from monitor.web.pages.centres.load import load_centres


@require_safe
def centres_page(request: HttpRequest) -> HttpResponse:
    """Show other centres only to readers without limits who are logged in or on this machine."""
    if not settings.OTHER_CENTRES:
        raise Http404(f"There is no other centre: {VARIABLE} is empty. Write {FORM}.")
    now = timezone.now()
    is_known = request.user.is_authenticated or (settings.LOCAL_READ and is_local(request))
    state = load_mesh_state(freshness.load(), now)
    context = {
        "mesh": Mesh.objects.first(),
        "now": now,
        "state": state,
        "view": load_centres(state, now, others=is_known and not is_limited()),
        "is_limited": is_limited(),
    }
    return render(request, "pages/centres/centres.html", context)
