"""All addresses of the centre: the agents' and users' API under /api/, the pages under /."""

from django.urls import include, path

urlpatterns = [
    path("api/", include("monitor.api.urls")),
    path("", include("monitor.reports.urls")),
    path("", include("monitor.web.urls")),
]

handler400 = "monitor.web.errors.bad_request"
handler403 = "monitor.web.errors.forbidden"
handler404 = "monitor.web.errors.not_found"
handler500 = "monitor.web.errors.failed"
