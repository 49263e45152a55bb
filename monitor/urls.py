from django.urls import include, path

from monitor.api.prometheus import views as prometheus

urlpatterns = [
    path("api/agent/", include("monitor.agents.urls")),
    path("api/", include("monitor.api.urls")),
    path("metrics", prometheus.system),
    path("metrics/paths", prometheus.paths),
    path("", include("monitor.reports.urls")),
    path("", include("monitor.web.urls")),
]

handler400 = "monitor.web.request.errors.bad_request"
handler403 = "monitor.web.request.errors.forbidden"
handler404 = "monitor.web.request.errors.not_found"
handler500 = "monitor.web.request.errors.failed"
