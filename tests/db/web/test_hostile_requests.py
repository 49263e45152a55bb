"""Hostile values at every address of the centre, in its path, its query and its body: none causes an internal error."""

import functools
import json
import re
from datetime import timedelta
from urllib.parse import quote, urlencode

import pytest
from django.contrib.auth.models import Group, User
from django.http import QueryDict
from django.urls import URLResolver, get_resolver

from monitor.alerts.models import Incident, QuietPeriod
from monitor.api.users import api
from monitor.reports.models import Subscriber
from tests.db.module_rows import module_rows
from tests.db.pages_mesh import HOUR, MINUTE, NOW, burst, hour, make_mesh, throughput

pytestmark = pytest.mark.django_db
LOCAL = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost"}
DIGITS = "9" * 5000
SEGMENTS = (
    "%00",
    "a%00b",
    "%FF%FE",
    "9" * 19,
    "9" * 20,
    DIGITS,
    "-1",
    "0001-01-01T00:00:00+23:59",
    "%0D%0AX: y",
    "%ED%A0%80",
)
MOMENTS = (
    "0001-01-01",
    "0001-01-01T00:00",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59",
)
VALUES = ("1\x00", "\ud800", "9" * 19, DIGITS, "1e999", "²", *MOMENTS, f"path:{DIGITS}")
JSON_VALUES = (
    *map(json.dumps, VALUES),
    DIGITS,
    f"-{DIGITS}",
    "9" * 19,
    "1e999",
    "NaN",
    "null",
    "[[]]",
    '{"\\u0000": 1}',
)
SHARES = 3
"""Each name meets a third of the values, and each value a third of the names: of ten thousand requests most are
answered by the same few readers of values."""
BODIES = (b"", b"\x00", b"\xff\xfe", b"[" * 100_000, b"{" * 100_000, DIGITS.encode(), b'"\\ud800"', b"[]", b"null")


def addresses():
    """Every route of the centre, with `<name>` for each value."""

    def routes_of(resolver, before):
        for pattern in resolver.url_patterns:
            route = before + str(pattern.pattern)
            yield from routes_of(pattern, route) if isinstance(pattern, URLResolver) else [route]

    routes = [re.sub(r"<(?:\w+:)?(\w+)>", r"<\1>", route) for route in routes_of(get_resolver(), "/")]
    return list(dict.fromkeys(routes))


ADDRESSES = addresses()


def share(values, route, name):
    """The values that this name meets at this address: others at the next address, and for the next name."""
    return values[(ADDRESSES.index(route) + sum(name.encode())) % SHARES :: SHARES]


@pytest.fixture(scope="module")
def rows(django_db_setup, django_db_blocker):
    """Values for every name in a route, all of existing objects; and an operator. What the requests change is rolled
    back after each test."""
    with module_rows(django_db_blocker):
        path = make_mesh()["slac", "cern"]
        burst(path, NOW - MINUTE, 1.5, None)
        hour(path, 100, 99, 1.5)
        throughput(path, HOUR, 1e9)
        incident = Incident.objects.create(rule="loss", cause="cern", opened_at=NOW, summary="loss")
        quiet = QuietPeriod.objects.create(
            kind=QuietPeriod.Kind.MAINTENANCE, starts_at=NOW, ends_at=NOW + timedelta(days=1), made_by="ann",
            made_at=NOW,
        )  # fmt: skip
        Subscriber.objects.create(
            recipient="ann@example.org", scope="mesh", format="html", numbers="en", zone="UTC", weekday=0, hour=7,
            token="secret", subscribed_at=NOW,
        )  # fmt: skip
        User.objects.create_user("somebody").groups.add(Group.objects.get(name="operator"))
        yield {
            "path_id": path.pk, "incident_id": incident.pk, "quiet_id": quiet.pk, "sweep_id": 1, "name": "slac",
            "at": HOUR.isoformat(), "token": "secret", "version": "1", "request_id": 1, "slo_id": 1,
        }  # fmt: skip


@pytest.fixture
def existing_values(rows, at_noon, client):
    """The values, and the operator as client."""
    client.force_login(User.objects.get(username="somebody"))
    client.raise_request_exception = False
    return rows


@pytest.fixture
def kept_user(existing_values, monkeypatch):
    """Session and user are not loaded anew for each request: a fifth of the processor time."""
    user = User.objects.get(username="somebody")
    monkeypatch.setattr("django.contrib.auth.get_user", lambda request: user)


def filled(route, existing_values, **others):
    return re.sub(r"<(\w+)>", lambda match: str({**existing_values, **others}.get(match[1], "1")), route)


def internal_errors(answers):
    """The requests that were answered with an internal error."""
    return [(request[:200], answer.status_code) for request, answer in answers if answer.status_code >= 500]


def test_no_value_in_a_path_is_an_internal_error(client, existing_values):
    answers = [
        (method + address, client.generic(method, address, **LOCAL))
        for route in ADDRESSES
        for name in re.findall(r"<(\w+)>", route)
        for value in share(SEGMENTS, route, name)
        for address in [
            filled(
                route, {key: quote(str(value_of_key)) for key, value_of_key in existing_values.items()}, **{name: value}
            )
        ]
        for method in ("GET", "POST")
    ]

    assert len(answers) > 100
    assert internal_errors(answers) == []


@pytest.fixture
def names_read(monkeypatch):
    """The names that a view reads from an address's query or a form, recorded while it reads them."""
    names = set()
    for reader in ("get", "getlist", "__getitem__", "__contains__"):
        original = getattr(QueryDict, reader)

        def read(self, key, *args, _original=original, **kwargs):
            names.add(key)
            return _original(self, key, *args, **kwargs)

        monkeypatch.setattr(QueryDict, reader, read)
    return names


@functools.cache
def documented():
    """The names of all parameters in the API's document, by address."""
    paths = api.get_openapi_schema()["paths"]
    return {
        re.sub(r"{(\w+)}", r"<\1>", address): {
            parameter["name"] for operation in operations.values() for parameter in operation.get("parameters", ())
        }
        for address, operations in paths.items()
    }


@pytest.mark.usefixtures("kept_user")
@pytest.mark.parametrize("route", [route for route in ADDRESSES if not route.endswith("openapi.json")])
def test_no_value_of_a_parameter_is_an_internal_error(client, existing_values, names_read, route):
    address = filled(route, existing_values)
    client.get(f"{address}?since=2026-11-20T12:00&until=2026-11-20T13:00", **LOCAL)
    names = sorted({*names_read, *documented().get(route, ())} - {"csrfmiddlewaretoken"})
    queries = [{name: value} for name in names for value in share(VALUES, route, name)]
    if "since" in names:
        queries += [{"since": since, "until": until} for since in MOMENTS[1:4] for until in MOMENTS[1:4]]

    encoded = [urlencode(query, errors="surrogatepass") for query in queries]
    assert (
        internal_errors([(f"{address}?{query}", client.get(f"{address}?{query}", **LOCAL)) for query in encoded]) == []
    )


@pytest.mark.usefixtures("kept_user")
@pytest.mark.parametrize("route", [route for route in ADDRESSES if not route.startswith("/api/")])
def test_no_value_of_a_form_is_an_internal_error(client, existing_values, names_read, route):
    address = filled(route, existing_values)
    client.post(address, {"scope": "mesh"}, **LOCAL)
    names = sorted(names_read - {"csrfmiddlewaretoken"})
    valid = {
        "scope": "mesh",
        "starts_at": "2026-11-22T10:00",
        "ends_at": "2026-11-22T11:00",
        "every_s": "86400",
        "revision": "0",
    }
    forms = [{**valid, name: value} for name in names for value in share(VALUES, route, name)]
    form = "application/x-www-form-urlencoded"

    answers = [
        (f"{address} {fields}", client.post(address, urlencode(fields, errors="surrogatepass"), form, **LOCAL))
        for fields in forms
    ]
    assert internal_errors(answers) == []


def bodies():
    """Every address of the API that takes a body, with a body that is valid except for a single value."""
    described = api.get_openapi_schema()
    for address, operations in described["paths"].items():
        for method, operation in operations.items():
            if "requestBody" not in operation:
                continue
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            names = [each["$ref"].rpartition("/")[2] for each in schema.get("anyOf", [schema])]
            fields = [field for name in names for field in described["components"]["schemas"][name]["properties"]]
            yield pytest.param(method.upper(), re.sub(r"{(\w+)}", r"<\1>", address), fields, id=f"{method} {address}")


RIGHT = {
    "until": '"2026-11-22T00:00:00Z"', "starts_at": '"2026-11-22T10:00:00Z"', "ends_at": '"2026-11-22T11:00:00Z"',
    "reason": '"works"', "text": '"hello"', "revision": "0",
}  # fmt: skip


@pytest.mark.usefixtures("kept_user")
@pytest.mark.parametrize(("method", "route", "fields"), bodies())
def test_no_value_of_a_body_is_an_internal_error(client, existing_values, method, route, fields):
    address = filled(route, existing_values)
    sent = list(BODIES)
    for field in fields:
        for value in share(JSON_VALUES, route, field):
            members = {name: RIGHT[name] for name in fields if name in RIGHT} | {field: value}
            sent.append(("{" + ", ".join(f'"{name}": {text}' for name, text in members.items()) + "}").encode())

    answers = [
        (f"{method} {address} {body[:150]!r}", client.generic(method, address, body, "application/json", **LOCAL))
        for body in sent
    ]
    assert internal_errors(answers) == []


@pytest.mark.parametrize(
    "header", ["Idempotency-Key", "If-None-Match", "Range", "Accept-Language", "Cookie", "Referer"]
)
def test_no_value_of_a_header_is_an_internal_error(client, existing_values, header):
    answers = [
        (f"{header}: {value}", client.get("/api/v1/sites", headers={header: value.replace("\ud800", "é")}, **LOCAL))
        for value in VALUES
    ]

    assert internal_errors(answers) == []
