"""The users' API, under /api/v1/."""

from django.urls import URLResolver, path

from monitor.api.users import api

urlpatterns: list[URLResolver] = [path("v1/", api.urls)]
