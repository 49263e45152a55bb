from __future__ import annotations

from django.http import Http404

from monitor.mesh.models import Path


def path_or_404(path_id: int) -> Path:
    """Raises Http404 that says where paths are."""
    path = Path.objects.with_hosts().filter(pk=path_id).first()
    if path is None:
        raise Http404(f"There is no path {path_id}; the grid links to those that there are.")
    return path
