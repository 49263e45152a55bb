"""The pages."""

from django.urls import URLPattern, path

from monitor.accounts.roles import Action, needs
from monitor.web.charts.view import chart_bundle
from monitor.web.pages.aggregates.run_now import aggregate_now, cancel_aggregate
from monitor.web.pages.aggregates.view import aggregate_page, aggregates_csv, aggregates_page
from monitor.web.pages.calculator.view import calculator_page
from monitor.web.pages.captures.view import capture_pcap, captures_page
from monitor.web.pages.centres.view import centres_page
from monitor.web.pages.compare.view import compare_page
from monitor.web.pages.completeness.view import completeness_page
from monitor.web.pages.grid.changes import grid_cell, grid_changes
from monitor.web.pages.grid.view import grid_page
from monitor.web.pages.incidents import operate
from monitor.web.pages.incidents.view import (
    audit_page,
    incident_page,
    incidents_page,
    maintenance_change_page,
    maintenance_page,
)
from monitor.web.pages.lab.view import lab_expected, lab_page
from monitor.web.pages.login import single_sign_on
from monitor.web.pages.login.view import Login
from monitor.web.pages.map.view import map_page
from monitor.web.pages.path import downloads, on_demand
from monitor.web.pages.path.other_tests import annotate
from monitor.web.pages.path.view import charts_json, path_page
from monitor.web.pages.paths.view import paths_page
from monitor.web.pages.preferences.view import preferences_page
from monitor.web.pages.records.view import records_page
from monitor.web.pages.reports.view import report, reports_page
from monitor.web.pages.routes.view import routes_page
from monitor.web.pages.search.view import search_page, suggestions
from monitor.web.pages.share.view import open_link, revoke, share_page
from monitor.web.pages.site.view import site_page
from monitor.web.pages.sites.view import sites_page
from monitor.web.pages.status.view import status_page
from monitor.web.pages.sweeps.view import sweep_page, sweeps_page
from monitor.web.pages.table.view import table_page, table_tsv
from monitor.web.pages.throughput.view import throughput_page

urlpatterns: list[URLPattern] = [
    path("", grid_page, name="grid"),
    path("grid/changes", grid_changes, name="grid-changes"),
    path("grid/cell", grid_cell, name="grid-cell"),
    path("map/", map_page, name="map"),
    path("routes/", routes_page, name="routes"),
    path("paths/", paths_page, name="paths"),
    path("paths/<int:path_id>/", path_page, name="path"),
    path("paths/<int:path_id>/charts.json", charts_json, name="path-charts"),
    path("paths/<int:path_id>/series.csv", downloads.series_csv, name="series-csv"),
    path("paths/<int:path_id>/bursts.csv", downloads.bursts_csv, name="bursts-csv"),
    path("paths/<int:path_id>/directions.csv", downloads.directions_csv, name="directions-csv"),
    path("paths/<int:path_id>/stamp.csv", downloads.stamp_csv, name="stamp-csv"),
    path("paths/<int:path_id>/tests.csv", downloads.tests_csv, name="tests-csv"),
    path(
        "paths/<int:path_id>/request-response.csv",
        downloads.results_csv,
        {"kind": "request-response"},
        name="request-response-csv",
    ),
    path("paths/<int:path_id>/changes.csv", downloads.changes_csv, name="changes-csv"),
    path("paths/<int:path_id>/routes.csv", downloads.routes_csv, name="routes-csv"),
    path("paths/<int:path_id>/run/", on_demand.run_now, name="run-now"),
    path("paths/<int:path_id>/annotate/", annotate.annotate, name="annotate"),
    path(
        "paths/<int:path_id>/annotations/<int:annotation_id>/remove/",
        annotate.remove_annotation,
        name="annotation-remove",
    ),
    path("paths/<int:path_id>/test/", on_demand.test_now, name="test-now"),
    path("paths/<int:path_id>/trace/", on_demand.trace_now, name="trace-now"),
    path("paths/<int:path_id>/test.json", on_demand.progress, name="path-progress"),
    path("incidents/", incidents_page, name="incidents"),
    path("incidents/<int:incident_id>/", incident_page, name="incident"),
    path("incidents/<int:incident_id>/acknowledge/", operate.acknowledge, name="acknowledge"),
    path("incidents/<int:incident_id>/unacknowledge/", operate.unacknowledge, name="unacknowledge"),
    path("incidents/<int:incident_id>/comment/", operate.comment, name="comment"),
    path("maintenance/", maintenance_page, name="maintenance"),
    path("maintenance/<int:quiet_id>/", maintenance_change_page, name="maintenance-change"),
    path("maintenance/<int:quiet_id>/end/", operate.end, name="quiet-end"),
    path("silences/", operate.silence, name="silence"),
    path("audit/", audit_page, name="audit"),
    path("status/", status_page, name="status"),
    path("table/", table_page, name="table"),
    path("table.tsv", table_tsv, name="table-tsv"),
    path("compare/", compare_page, name="compare"),
    path("sites/", sites_page, name="sites"),
    path("throughput/", throughput_page, name="throughput"),
    path("aggregates/", aggregates_page, name="aggregates"),
    path("aggregates/run/", aggregate_now, name="aggregate-now"),
    path("aggregates/<int:slot_id>/cancel/", cancel_aggregate, name="cancel-aggregate"),
    path("aggregates.csv", aggregates_csv, name="aggregates-csv"),
    path("aggregates/<int:aggregate_id>/", aggregate_page, name="aggregate"),
    path("records/", records_page, name="records"),
    path("sweeps/", sweeps_page, name="sweeps"),
    path("sweeps/<int:sweep_id>/", sweep_page, name="sweep"),
    path("sites/<str:name>/", site_page, name="site"),
    path("sites/<str:name>/annotate/", annotate.annotate_site, name="site-annotate"),
    path(
        "sites/<str:name>/annotations/<int:annotation_id>/remove/",
        annotate.remove_annotation_of_site,
        name="site-annotation-remove",
    ),
    path("centres/", centres_page, name="centres"),
    path("completeness/", completeness_page, name="completeness"),
    path("captures/", captures_page, name="captures"),
    path("captures/<int:slot_id>-<str:role>.pcap", capture_pcap, name="capture-pcap"),
    path("calculator/", calculator_page, name="calculator"),
    path("search/", search_page, name="search"),
    path("search/suggestions/", suggestions, name="search-suggestions"),
    path("settings/", preferences_page, name="preferences"),
    path("reports/", reports_page, name="reports"),
    path("reports/<str:name>", report, name="report"),
    path("charts/vega-<str:version>.js", chart_bundle, name="chart-bundle"),
    path("lab/", lab_page, name="lab"),
    path("lab/expected/", lab_expected, name="lab-expected"),
    path("share/", share_page, name="share"),
    path("share/<int:link_id>/revoke/", revoke, name="share-revoke"),
    path("shared/<str:token>/", open_link, name="shared"),
    path("login/", Login.as_view(), name="login"),
    path("login/sso/", single_sign_on.begin, name="sso"),
    path("login/sso/callback/", single_sign_on.callback, name="sso-callback"),
    path("logout/", needs(Action.READ)(single_sign_on.Logout.as_view()), name="logout"),
]
