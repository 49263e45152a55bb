"""URLs of the agent API under /api/agent/."""

from django.urls import URLPattern, path

from monitor.agents import delivery_counts, views
from monitor.agents.clock_headers import add_timestamps
from monitor.agents.enrolment import enrol
from monitor.agents.protocol import add_supported_versions

urlpatterns: list[URLPattern] = [
    path("plan", add_supported_versions(add_timestamps(views.plan))),
    path("results", add_supported_versions(add_timestamps(delivery_counts.count_responses(views.results)))),
    path("on-demand-pings", add_supported_versions(add_timestamps(views.on_demand_pings))),
    path("enrol", add_supported_versions(add_timestamps(enrol))),
]
