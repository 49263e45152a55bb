"""Agents under /api/agent/, users under /api/v1/."""

from django.urls import URLPattern, URLResolver, path

from monitor.api import agents
from monitor.api.users import api

urlpatterns: list[URLPattern | URLResolver] = [
    path("agent/plan", agents.plan),
    path("agent/results", agents.results),
    path("v1/", api.urls),
]
