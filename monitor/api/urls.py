"""Agents under /api/agent/, users under /api/v1/."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
