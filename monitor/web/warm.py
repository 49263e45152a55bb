"""Prepare the web server for its first readers: `prepare` before workers are forked, without database; `warm_up` in
each."""

from __future__ import annotations

import fcntl
import logging
from pathlib import Path
from threading import Thread

from django.conf import settings
from django.db import connection
from django.http import HttpRequest
from django.template.loader import get_template
from django.urls import reverse
from django.utils import timezone

from monitor.analysis.binomial import lower_bound
from monitor.mesh.models import Path as MeshPath
from monitor.overview.mesh_state import LARGE_FROM_PATHS
from monitor.overview.wide import mesh_results
from monitor.web.charts import bundle
from monitor.web.charts.catalogue import empty_charts
from monitor.web.charts.compiled import compile_layouts
from monitor.web.pages.grid.places import shows_sites
from monitor.web.pages.status.view import make_early
from monitor.web.request.grid_choices import load_early

log = logging.getLogger(__name__)
# Folders of the pages that are opened most, and of the frame of all pages.
TEMPLATES = ("pages/grid", "pages/path", "templates/web")


def prepare() -> None:
    """Build chart layouts, parse the most used templates, import modules for first requests."""
    empty_charts()
    reverse("grid")
    lower_bound([1], [10])  # imports SciPy
    folder = Path(__file__).parent
    for file in (file for name in TEMPLATES for file in sorted((folder / name).rglob("*.html"))):
        get_template(str(file.relative_to(folder)).removeprefix("templates/"))


def warm_up() -> None:
    """Load grid, status page and large-mesh caches, and make missing chart files, in threads."""
    load_early(HttpRequest(), timezone.now(), is_shown=lambda: shows_sites(HttpRequest()))
    make_early()
    Thread(target=_load_mesh_results, name="mesh", daemon=True).start()
    Thread(target=_make_chart_files, name="charts", daemon=True).start()


def _load_mesh_results() -> None:
    try:
        if MeshPath.objects.filter(retired_at=None).count() >= LARGE_FROM_PATHS:
            mesh_results.load_early()
    except Exception:
        # Nobody needs them yet; the first reader reads them, and gets the error if it fails again.
        log.warning("the results of the mesh could not be read beside requests", exc_info=True)
    finally:
        connection.close()


def _make_chart_files() -> None:
    folder = settings.DATA_DIR / "web"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "charts.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            bundle.bundle_gzip()
            compile_layouts(empty_charts())
    except (bundle.BundleError, OSError):
        log.warning("the files of interactive charts could not be made", exc_info=True)  # the next request tries again
