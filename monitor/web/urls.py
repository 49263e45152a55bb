"""The pages."""

from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, path

from monitor.api.roles import Action, needs
from monitor.web import views

urlpatterns: list[URLPattern] = [
    path("", views.grid_page, name="grid"),
    path("map/", views.map_page, name="map"),
    path("paths/<int:path_id>/", views.path_page, name="path"),
    path("sites/", views.sites_page, name="sites"),
    path("completeness/", views.completeness_page, name="completeness"),
    path("calculator/", views.calculator_page, name="calculator"),
    path("reports/<str:name>", views.report, name="report"),
    path("charts/vega-<str:version>.js", views.chart_bundle, name="chart-bundle"),
    path("login/", views.Login.as_view(), name="login"),
    path("logout/", needs(Action.READ)(LogoutView.as_view(next_page="login")), name="logout"),
]
