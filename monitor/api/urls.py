"""Agents under /api/agent/, users under /api/v1/."""

from django.urls import URLPattern, URLResolver, path

from monitor.api import agents, tally
from monitor.api.enrolment import enrol
from monitor.api.protocol import telling
from monitor.api.stamps import stamped
from monitor.api.users import api

urlpatterns: list[URLPattern | URLResolver] = [
    path("agent/plan", telling(stamped(agents.plan))),
    path("agent/results", telling(stamped(tally.counted(agents.results)))),
    path("agent/enrol", telling(stamped(enrol))),
    path("v1/", api.urls),
]
