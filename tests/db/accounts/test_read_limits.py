"""Limits of what may be read: no page, chart, export, metric or answer of the API shows a site outside of the limit."""

import re
from datetime import timedelta
from itertools import islice
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.urls import URLPattern, URLResolver, get_resolver

from monitor.accounts import read_limits
from monitor.accounts.limited_role import TIME_SERIES
from monitor.accounts.models import ReadLimit, UserToken, issue_user_token
from monitor.alerts.models import Annotation, AuditRecord, Incident, IncidentPath, QuietPeriod
from monitor.api.users import api
from monitor.archive.upkeep.server import HYPERTABLES
from monitor.mesh import models as mesh
from monitor.present.conditions import Condition
from monitor.reports.contents.report import ReportScope
from monitor.reports.files import make_report, write_report
from monitor.reports.numbers import Numbers
from monitor.reports.periods import Period, Week
from tests.db.pages_mesh import HOUR, NOW, hour, make_mesh, throughput
from tests.db.track_rows import store_track

pytestmark = pytest.mark.django_db
OPEN, HIDDEN = ("alpha", "bravo"), ("quorndon",)
ELSEWHERE = {"REMOTE_ADDR": "192.0.2.7", "HTTP_HOST": "localhost", "wsgi.url_scheme": "https"}


@pytest.fixture(autouse=True)
def from_elsewhere(settings, at_noon):
    settings.ALLOWED_HOSTS = ["*"]
    settings.PUBLIC_READ = settings.LOCAL_READ = False
    settings.ALLOW_PLAIN_HTTP = True


@pytest.fixture
def at_noon(monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)


@pytest.fixture
def paths(settings, tmp_path):
    """Three sites in a full mesh with results, incidents, maintenance and notes; two sites are the group `open`."""
    paths = make_mesh((*OPEN, *HIDDEN))
    group = mesh.Group.objects.create(name="open", shape="mesh")
    group.sites.set(mesh.Site.objects.filter(name__in=OPEN))
    for path in paths.values():
        for before in range(3):
            hour(path, 600, 590, 20.0, hour=HOUR - timedelta(hours=before))
        throughput(path, NOW - timedelta(hours=1), 940e6)
    for (source, destination), path in paths.items():
        incident = Incident.objects.create(
            rule="loss", cause=f"{source} to {destination}", opened_at=NOW, summary=f"loss {source} to {destination}"
        )
        sentence = f"loss from {source} to {destination}"
        IncidentPath.objects.create(
            incident=incident, path=path, rule="loss", sentence=sentence, since=NOW, added_at=NOW, figures={}
        )
        AuditRecord.objects.create(at=NOW, who="ada", what=f"acknowledged {sentence}", incident=incident)
        AuditRecord.objects.create(at=NOW, who="ada", what=f"pinged {path} on demand")
        store_track(path, Condition.DEAD)
        Annotation.objects.create(path=path, at=NOW, text=f"work at {destination}", made_by="ada", made_at=NOW)
    for site in mesh.Site.objects.all():
        QuietPeriod.objects.create(
            kind="maintenance", site=site, starts_at=NOW, ends_at=NOW + timedelta(hours=1), made_by="ada", made_at=NOW,
            reason=f"new router at {site.name}",
        )  # fmt: skip
    settings.REPORT_DIR = tmp_path
    week = Period.of_week(Week.parse("2026-W47"), ZoneInfo("UTC"))
    write_report(make_report(ReportScope(), week, NOW, Numbers()), NOW, Numbers())
    return paths


def user_with(role="viewer", name="lim"):
    user = User.objects.create_user(name, password="x")
    user.groups.add(Group.objects.get(name=role))
    return user


def limited(**reader):
    limit = ReadLimit.objects.create(**reader)
    limit.groups.set(mesh.Group.objects.filter(name="open"))
    return limit


def pages(paths, places):
    """Every address of the centre that is read, once for each of these paths and sites where it names one."""
    incidents = {row.path_id: row.incident_id for row in IncidentPath.objects.all()}
    keys = {
        "path_id": [path.pk for path in paths],
        "incident_id": [incidents.get(path.pk, 1) for path in paths],
        "name": places,
        "quiet_id": list(QuietPeriod.objects.filter(site__name__in=places).values_list("pk", flat=True)),
        "role": ["sender"],
        "report": ["2026-W47"],
        "path": [path.pk for path in paths],
    }
    addresses = []
    for route in routes_of(get_resolver(), "/"):
        route = route.replace("reports/<str:name>", "reports/<str:report>")
        if route.startswith("/api/v1/"):
            continue  # from the OpenAPI document, which has their parameters
        if "/agent/" in route or "login" in route or "logout" in route or "openapi" in route or "docs" in route:
            continue
        names = re.findall(r"<(?:\w+:)?(\w+)>", route)
        for number in range(max((len(keys.get(name) or [1]) for name in names), default=1)):
            filled = route
            for name in names:
                values = keys.get(name) or [1]
                filled = re.sub(rf"<(?:\w+:)?{name}>", str(values[number % len(values)]), filled)
            addresses.append(filled)
    return [*addresses, *api_addresses(paths, places, keys)]


def api_addresses(paths, places, keys):
    """Every GET of the OpenAPI document, with all of its parameters that name a place, and with those it requires."""
    first, values = paths[0], {"start": "2026-11-20T00:00:00Z", "end": "2026-11-22T00:00:00Z", "source": places[0]}
    values |= {"destination": places[1], "site": places[0], "host": places[0], "path_id": first.pk, "path": first.pk}
    places_of = {
        "at": HOUR.isoformat(),
        "slo_id": 1,
        **{key: listed[0] for key, listed in keys.items() if listed},
        **values,
    }
    for address, operations in api.get_openapi_schema()["paths"].items():
        if "get" not in operations:
            continue
        parameters = operations["get"].get("parameters", [])
        filled = re.sub(r"\{(\w+)\}", lambda match: str(places_of.get(match[1], 1)), address)
        required = [entry for entry in parameters if entry["in"] == "query" and entry.get("required")]
        named = [entry for entry in parameters if entry["in"] == "query" and entry["name"] in values]
        for entries in (required, named):
            query = urlencode({entry["name"]: values.get(entry["name"], 1) for entry in entries})
            yield f"{filled}?{query}"


def routes_of(resolver, before):
    for pattern in resolver.url_patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes_of(pattern, route)
        elif isinstance(pattern, URLPattern):
            yield route


QUERIES = {
    "/": ["", "?period=hour", "?period=day", "?period=week", "?metric=rtt&period=day", "?metric=throughput&period=day"],
    "/search/": ["?q=o&all=1"],
    "/search/suggestions/": ["?q=o"],
    "/table/": ["?tick=hour", "?tick=day"],
    "/table.tsv": ["?tick=hour"],
    "/audit/": ["", "?who=ada"],
}


def body(response):
    content = b"".join(response.streaming_content) if response.streaming else response.content
    return content.decode(errors="replace").lower()


LEAST_NAMED = 12


def test_no_address_names_a_hidden_site(client, paths):
    """The oracle: the same reader without its limit finds the hidden names on many of the same pages, and each page
    that the limit refuses was refused before too."""
    client.force_login(user_with("operator"))
    client.raise_request_exception = False
    limit = limited(user=User.objects.get())
    addresses = [address + query for address in pages([paths[OPEN]], OPEN) for query in QUERIES.get(address, [""])]

    wrong, refused = {}, {}
    for address in addresses:
        response = client.get(address, **ELSEWHERE)
        shown = [name for name in HIDDEN if name in body(response)]
        if shown:
            wrong[address] = shown
        if response.status_code >= 400:
            refused[address] = response.status_code
    limit.delete()
    broken = {
        address: status
        for address, status in refused.items()
        if status >= 500 or client.get(address, **ELSEWHERE).status_code == 200
    }
    naming = (
        address for address in addresses if any(name in body(client.get(address, **ELSEWHERE)) for name in HIDDEN)
    )

    assert wrong == {}
    assert broken == {}
    assert len(list(islice(naming, LEAST_NAMED))) == LEAST_NAMED


@pytest.mark.timescale
def test_the_path_of_a_hidden_site_is_not_found(client, paths):
    client.force_login(user_with())
    limited(user=User.objects.get())
    hidden, incident = paths["alpha", "quorndon"], Incident.objects.get(cause="quorndon to alpha")

    for address in (
        f"/paths/{hidden.pk}/", f"/paths/{hidden.pk}/charts.json", f"/paths/{hidden.pk}/series.csv",
        f"/api/v1/paths/{hidden.pk}/series", f"/incidents/{incident.pk}/", "/sites/quorndon/",
        f"/api/v1/incidents/{incident.pk}",
    ):  # fmt: skip
        assert client.get(address, **ELSEWHERE).status_code == 404, address
    assert client.get(f"/paths/{paths[OPEN].pk}/", **ELSEWHERE).status_code == 200


def test_an_operator_with_a_limit_acts_within_it(client, paths):
    client.force_login(user_with("operator"))
    limited(role="operator")
    inside, outside = (Incident.objects.get(cause=cause) for cause in ("alpha to bravo", "alpha to quorndon"))

    answers = [client.post(f"/incidents/{row.pk}/acknowledge/", **ELSEWHERE) for row in (inside, outside)]

    assert [answer.status_code for answer in answers] == [302, 404]
    inside.refresh_from_db()
    outside.refresh_from_db()
    assert (inside.acknowledged_by, outside.acknowledged_by) == ("lim", "")


def sites_of_api(client, token):
    answer = client.get("/api/v1/sites", HTTP_AUTHORIZATION=f"Bearer {token}", **ELSEWHERE)
    return {site["name"] for site in answer.json()}


def test_a_token_narrows_the_limit_of_its_user(client, paths):
    user = user_with()
    free, narrow = (issue_user_token(user.pk, name, NOW) for name in ("free", "narrow"))
    call_command("user", "limit", "lim", "--group", "open")
    of_token = ReadLimit.objects.create(token=UserToken.objects.get(name="narrow"))
    of_token.sites.set(mesh.Site.objects.filter(name__in=["bravo", "quorndon"]))

    assert sites_of_api(client, free) == {"alpha", "bravo"}
    assert sites_of_api(client, narrow) == {"bravo"}
    call_command("user", "limit", "lim", "--none")
    assert sites_of_api(client, free) == {"alpha", "bravo", "quorndon"}
    assert sites_of_api(client, narrow) == {"bravo", "quorndon"}


def test_of_several_roles_the_widest_limit_counts(paths):
    user = user_with()
    limited(role="viewer")
    ids = dict(mesh.Site.objects.values_list("name", "pk"))

    assert read_limits.readable_sites(user) == {ids["alpha"], ids["bravo"]}
    user.groups.add(Group.objects.get(name="operator"))
    assert read_limits.readable_sites(user) is None


def test_a_limit_without_sites_reads_nothing(client, paths):
    client.force_login(user_with())
    ReadLimit.objects.create(user=User.objects.get())

    assert client.get("/api/v1/sites", **ELSEWHERE).json() == []
    assert client.get("/", **ELSEWHERE).status_code == 200


def test_after_a_limited_request_everything_is_read_again(client, paths):
    client.force_login(user_with())
    limited(user=User.objects.get())

    client.get("/", **ELSEWHERE)

    assert not read_limits.is_limited()
    assert mesh.Site.objects.count() == 3


def test_a_command_limits_to_known_places_only(paths):
    user_with()

    with pytest.raises(CommandError, match="no group nowhere"):
        call_command("user", "limit", "lim", "--group", "nowhere")
    assert not ReadLimit.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_lost_connection_is_limited_again(paths):
    read_limits.limit([mesh.Site.objects.get(name="alpha").pk])
    connection.close()

    names = [site.name for site in mesh.Site.objects.all()]
    read_limits.unlimit()

    assert names == ["alpha"]


def test_without_the_database_role_nothing_is_read(client, paths, monkeypatch):
    monkeypatch.setattr(read_limits, "LIMITED", "nobody_at_all")
    client.force_login(user_with())
    limited(user=User.objects.get())

    with transaction.atomic():
        answer = client.get("/api/v1/sites", **ELSEWHERE)
        transaction.set_rollback(True)

    assert answer.status_code == 503
    assert "database role" in answer.json()["detail"]


NAMELESS = {
    "auth_group", "auth_group_permissions", "auth_permission", "auth_user", "auth_user_groups",
    "auth_user_user_permissions", "centre_sample", "cold_file", "django_content_type", "django_migrations",
    "django_session", "host_inventory", "kept_since", "last_run", "loaded_table", "mesh", "plan_epoch", "read_limit",
    "read_limit_groups", "read_limit_sites", "reverse_name", "single_sign_on_identity", "table_size", "test",
    "user_preferences", "user_token", "weekly_report",
}  # fmt: skip
"""Tables that readers with limits see in full: they have no rows of a site or path. `mesh` has settings, which no page
shows by site; `host_inventory` is reached from a throughput test only; `cold_file` has files of many paths; of the
weeks of `weekly_report` these readers get reports of their own."""


@pytest.mark.timescale
def test_every_table_of_a_site_or_path_has_a_policy():
    """How to give a new table its own: rule 7 of docs/migrations.md."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, relrowsecurity FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
        )
        tables = dict(cursor.fetchall())

    assert {name for name, has_policy in tables.items() if not has_policy} == {*NAMELESS, *HYPERTABLES}
    assert set(TIME_SERIES) == HYPERTABLES.keys()
