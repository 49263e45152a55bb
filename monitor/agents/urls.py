"""URLs of the agent API under /api/agent/."""

from django.urls import URLPattern, path

from monitor.agents import delivery_counts, views
from monitor.agents.enrolment import enrol
from monitor.agents.protocol import telling
from monitor.agents.stamps import stamped

urlpatterns: list[URLPattern] = [
    path("plan", telling(stamped(views.plan))),
    path("results", telling(stamped(delivery_counts.count_responses(views.results)))),
    path("enrol", telling(stamped(enrol))),
]
