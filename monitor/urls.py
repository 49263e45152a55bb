"""All addresses of the centre: the agents' and users' API under /api/, the pages under /."""

from django.urls import include, path

urlpatterns = [
    path("api/", include("monitor.api.urls")),
    path("", include("monitor.web.urls")),
]
