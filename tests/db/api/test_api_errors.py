"""Answers of the users' API to requests that it cannot serve, and to its bare and its badly ended addresses."""

import pytest
from django.contrib.auth.models import Group as Role
from django.contrib.auth.models import User
from django.urls import get_resolver

from monitor.accounts.models import issue_user_token
from tests.db.pages_mesh import NOW

pytestmark = pytest.mark.django_db


@pytest.fixture
def bearer():
    user = User.objects.create_user("robot")
    user.groups.add(Role.objects.get(name="operator"))
    return {"host": "localhost", "authorization": f"Bearer {issue_user_token(user.pk, 'all', NOW, may_operate=True)}"}


@pytest.mark.parametrize(
    ("method", "address", "body", "sentence"),
    [
        ("post", "annotations", {"text": "x"}, "at: required"),
        ("post", "paths/1/on-demand", {"streams": "many"}, "streams: must be a valid integer"),
        ("get", "worst?limit=0", None, "limit: must be greater than or equal to 1"),
        ("get", "paths/1/series?size=-1", None, "size: must be greater than or equal to 0"),
    ],
)
def test_an_invalid_field_is_named_in_a_sentence(client, bearer, method, address, body, sentence):
    data = {} if body is None else {"data": body, "content_type": "application/json"}
    answer = getattr(client, method)(f"/api/v1/{address}", headers=bearer, **data)

    assert answer.status_code == 422, answer.content
    assert answer.json()["detail"].startswith(sentence)
    assert lacking_words(answer.json()["detail"], "body", "Input", "Value error") == []


def test_the_root_of_the_api_leads_to_its_description(client, bearer):
    root = client.get("/api/v1/", headers=bearer).json()

    assert client.get(root["openapi"], headers=bearer).json()["info"]["title"] == root["title"]


@pytest.mark.parametrize(
    "address", ["/metrics/", "/metrics/paths/", "/api/v1/paths/", "/api/v1/state//", "/grid/cell/?source=a"]
)
def test_a_slash_too_many_redirects(client, bearer, address):
    answer = client.get(address, headers=bearer)

    path, _, query = address.partition("?")
    assert (answer.status_code, answer["Location"]) == (308, path.rstrip("/") + f"?{query}" * bool(query))


@pytest.mark.parametrize("address", ["/api/v1/nothing/", "/metrics/nothing/", "/nothing/at/all/"])
def test_an_unknown_address_with_a_slash_stays_404(client, bearer, address):
    answer = client.get(address, headers=bearer)

    assert answer.status_code == 404


def test_no_address_is_served_with_and_without_a_slash():
    routes = [str(pattern.pattern) for pattern in get_resolver().url_patterns]

    assert "metrics" in routes
    assert [route for route in routes if route and f"{route}/" in routes] == []


def lacking_words(sentence, *unwanted):
    return [word for word in unwanted if word in sentence]
