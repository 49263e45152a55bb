"""The pages."""

from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, path

from monitor.api.roles import Action, needs
from monitor.web import (
    compare_page,
    downloads,
    incident_pages,
    operating,
    records_pages,
    run_now,
    sweep_pages,
    table_pages,
    throughput_page,
    views,
)
from monitor.web.login import Login

urlpatterns: list[URLPattern] = [
    path("", views.grid_page, name="grid"),
    path("map/", views.map_page, name="map"),
    path("paths/<int:path_id>/", views.path_page, name="path"),
    path("paths/<int:path_id>/series.csv", downloads.series_csv, name="series-csv"),
    path("paths/<int:path_id>/bursts.csv", downloads.bursts_csv, name="bursts-csv"),
    path("paths/<int:path_id>/tests.csv", downloads.tests_csv, name="tests-csv"),
    path("paths/<int:path_id>/changes.csv", downloads.changes_csv, name="changes-csv"),
    path("paths/<int:path_id>/run/", run_now.run_now, name="run-now"),
    path("incidents/", incident_pages.incidents_page, name="incidents"),
    path("incidents/<int:incident_id>/", incident_pages.incident_page, name="incident"),
    path("incidents/<int:incident_id>/acknowledge/", operating.acknowledge, name="acknowledge"),
    path("incidents/<int:incident_id>/unacknowledge/", operating.unacknowledge, name="unacknowledge"),
    path("incidents/<int:incident_id>/comment/", operating.comment, name="comment"),
    path("maintenance/", incident_pages.maintenance_page, name="maintenance"),
    path("maintenance/<int:quiet_id>/", incident_pages.maintenance_change_page, name="maintenance-change"),
    path("maintenance/<int:quiet_id>/end/", operating.end, name="quiet-end"),
    path("silences/", operating.silence, name="silence"),
    path("audit/", incident_pages.audit_page, name="audit"),
    path("table/", table_pages.table_page, name="table"),
    path("table.tsv", table_pages.table_tsv, name="table-tsv"),
    path("compare/", compare_page.compare_page, name="compare"),
    path("sites/", views.sites_page, name="sites"),
    path("throughput/", throughput_page.throughput_page, name="throughput"),
    path("records/", records_pages.records_page, name="records"),
    path("sweeps/", sweep_pages.sweeps_page, name="sweeps"),
    path("sweeps/<int:sweep_id>/", sweep_pages.sweep_page, name="sweep"),
    path("sites/<str:name>/", views.site_page, name="site"),
    path("completeness/", views.completeness_page, name="completeness"),
    path("calculator/", views.calculator_page, name="calculator"),
    path("reports/<str:name>", views.report, name="report"),
    path("charts/vega-<str:version>.js", views.chart_bundle, name="chart-bundle"),
    path("login/", Login.as_view(), name="login"),
    path("logout/", needs(Action.READ)(LogoutView.as_view(next_page="login")), name="logout"),
]
