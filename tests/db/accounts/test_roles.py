"""Roles: the permissions of each, for people with a session and for programs with a token; and the commands that manage
them."""

import io
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.http import HttpResponse
from django.urls import path
from ninja import NinjaAPI

from monitor import urls
from monitor.accounts import rate_limits
from monitor.accounts.models import UserToken, issue_user_token, token_digest
from monitor.accounts.roles import MAY, Action, Role, may, needs
from tests.facts import lacks

pytestmark = pytest.mark.django_db
SECURITY = Path(__file__).parents[3] / "docs" / "security.md"
NOW = datetime(2026, 11, 21, tzinfo=UTC)
ELSEWHERE = {"REMOTE_ADDR": "192.0.2.7", "HTTP_HOST": "soundings.example.org", "wsgi.url_scheme": "https"}
PASSWORD = "long and winding"

probe_api = NinjaAPI(urls_namespace="probe", docs_url=None)


@probe_api.get("/read")
def read(request):
    return {}


@probe_api.post("/write")
def write(request):
    return {}


@needs(Action.OPERATE)
def form(request):
    return HttpResponse("done")


urlpatterns = [
    path("act/", lambda request: HttpResponse("done")),
    path("form/", form),
    path("api/probe/", probe_api.urls),
    *urls.urlpatterns,
]
handler400, handler403, handler404, handler500 = urls.handler400, urls.handler403, urls.handler404, urls.handler500


@pytest.fixture(autouse=True)
def views_that_do_something(settings):
    settings.ROOT_URLCONF = __name__
    settings.ALLOWED_HOSTS = ["soundings.example.org"]


def user_with(*roles):
    user = User.objects.create_user("somebody", password=PASSWORD)
    user.groups.add(*Group.objects.filter(name__in=roles))
    return user


# From the specification: viewers read, operators act; administrators use the command line.
ALLOWED = {
    (): set(),
    ("viewer",): {"read"},
    ("operator",): {"read", "operate"},
    ("viewer", "operator"): {"read", "operate"},
}


@pytest.mark.parametrize(("roles", "allowed"), ALLOWED.items())
def test_each_role_has_exactly_its_permissions(client, roles, allowed):
    client.force_login(user_with(*roles))
    answers = {
        "read": [client.get("/act/", **ELSEWHERE), client.get("/api/probe/read", **ELSEWHERE)],
        "operate": [client.post("/act/", **ELSEWHERE), client.post("/api/probe/write", **ELSEWHERE)],
    }
    form = client.get("/form/", **ELSEWHERE)

    for action, both in answers.items():
        assert [response.status_code for response in both] == [200 if action in allowed else 403] * 2, action
    assert form.status_code == (200 if "operate" in allowed else 403), "a view's action does not depend on the method"
    if "operate" not in allowed:
        assert lacks(answers["operate"][0].content.decode(), "somebody has no role", "may operate") == []
        assert "manage.py user role somebody ROLE" in answers["operate"][1].json()["detail"]


def test_nobody_acts_without_a_login(client, settings):
    settings.PUBLIC_READ = settings.LOCAL_READ = True
    here = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost"}
    settings.ALLOWED_HOSTS = ["*"]

    for where in (ELSEWHERE, here):
        assert client.get("/act/", **where).status_code == 200
        assert client.post("/act/", **where).status_code == 302
        assert client.post("/api/probe/write", **where).status_code == 401
        assert client.get("/form/", **where).status_code == 302


def test_a_closed_account_has_no_permission():
    user = user_with("operator")
    user.is_active = False

    assert not any(may(user, action) for action in Action)


def test_a_superuser_is_an_operator(client):
    client.force_login(User.objects.create_superuser("root"))

    assert client.post("/act/", **ELSEWHERE).status_code == 200


def test_every_action_and_role_is_in_the_table_of_this_test():
    """Two roles with equal permissions, or an action without a role, would be an error."""
    assert {action for actions in MAY.values() for action in actions} == set(Action)
    assert len(set(MAY.values())) == len(MAY) == len(Role)
    assert {action for actions in ALLOWED.values() for action in actions} == set(Action)


def test_the_groups_exist_and_hold_no_more_than_the_roles():
    assert set(Group.objects.values_list("name", flat=True)) == set(Role)


def test_the_table_in_the_documents_equals_the_code():
    rows = re.findall(r"^\| `(\w+)` \| (yes|no) \| (yes|no) \|", SECURITY.read_text(), re.MULTILINE)

    written = {
        role: {action for action, word in zip(Action, words, strict=True) if word == "yes"} for role, *words in rows
    }
    assert written == {role: set(actions) for role, actions in MAY.items()}


def test_the_api_refuses_a_change_from_another_sites_page(client):
    """A session's cookie is not sufficient: the form must be ours."""
    client.handler.enforce_csrf_checks = True
    client.force_login(user_with("operator"))
    forged = client.post("/api/probe/write", **ELSEWHERE)
    client.get("/", **ELSEWHERE)
    from_ours = {
        "HTTP_X_CSRFTOKEN": client.cookies["csrftoken"].value,
        "HTTP_REFERER": "https://soundings.example.org/",
    }

    assert forged.status_code == 403
    assert client.post("/api/probe/write", **ELSEWHERE, **from_ours).status_code == 200


def bearer(token):
    return {**ELSEWHERE, "HTTP_AUTHORIZATION": f"Bearer {token}"}


def test_a_token_reads_as_its_user_and_changes_nothing(client):
    token = issue_user_token(user_with("operator").pk, "export", NOW)

    assert client.get("/api/probe/read", **bearer(token)).status_code == 200
    assert client.get("/api/v1/sites", **bearer(token)).status_code == 200
    refused = client.post("/api/probe/write", **bearer(token))
    assert refused.status_code == 403
    command = "`manage.py user token NAME --operate`"
    assert lacks(refused.json()["detail"], "token may only read", "log in", "may operate", command) == []
    assert client.get("/act/", **bearer(token)).status_code == 302


@pytest.mark.parametrize("end", ["revoked", "closed", "no role"])
def test_a_token_ends_when_revoked_or_without_its_user(client, end):
    user = user_with("viewer")
    token = issue_user_token(user.pk, "export", NOW)
    if end == "revoked":
        UserToken.objects.update(revoked_at=NOW)
    elif end == "closed":
        User.objects.update(is_active=False)
    else:
        user.groups.clear()

    answer = client.get("/api/probe/read", **bearer(token))

    assert answer.status_code == (403 if end == "no role" else 401)
    if answer.status_code == 401:
        assert "unknown or revoked" in answer.json()["detail"]
        assert answer["WWW-Authenticate"].startswith("Bearer")


def test_agents_tokens_read_nothing_and_users_deliver_nothing(client):
    from monitor.agents.models import issue_token
    from tests.db.mesh_of_three import make_mesh

    agents = issue_token(make_mesh().slac.pk, NOW)
    users = issue_user_token(user_with("operator").pk, "export", NOW)

    assert client.get("/api/probe/read", **bearer(agents)).status_code == 401
    assert client.get("/api/agent/plan", **bearer(users)).status_code == 401


def test_a_token_over_its_rate_limit_gets_retry_after(client, monkeypatch):
    token = issue_user_token(user_with("viewer").pk, "export", NOW)
    requests = []
    monkeypatch.setattr(rate_limits, "wait_s", lambda key, rate: requests.append((key, rate)) or 2.5)

    answer = client.get("/api/probe/read", **bearer(token))

    assert (answer.status_code, answer["Retry-After"]) == (429, "3")
    assert requests == [(f"user:{token_digest(token)}", rate_limits.SCRIPT)]


@pytest.fixture
def open_to_all(settings):
    settings.PUBLIC_READ = True


@pytest.mark.parametrize("address", ["/api/probe/read", "/api/v1/sites", "/metrics", "/", "/act/"])
def test_a_wrong_token_is_refused_where_reading_is_open(client, open_to_all, address):
    revoked = issue_user_token(user_with("viewer").pk, "export", NOW)
    UserToken.objects.update(revoked_at=NOW)

    for token in (revoked, "guessed", ""):
        answer = client.get(address, **bearer(token))
        assert (answer.status_code, answer["WWW-Authenticate"][:6]) == (401, "Bearer")


def test_a_token_acts_as_its_user_where_reading_is_open(client, open_to_all):
    token = issue_user_token(user_with("operator").pk, "tickets", NOW, may_operate=True)

    reading, writing = client.get("/api/probe/read", **bearer(token)), client.post("/api/probe/write", **bearer(token))

    assert (reading.status_code, writing.status_code) == (200, 200)
    assert reading.wsgi_request.user.get_username() == writing.wsgi_request.user.get_username() == "somebody"


def test_a_token_reads_only_the_pages_that_are_open(client, open_to_all):
    token = issue_user_token(user_with("operator").pk, "tickets", NOW, may_operate=True)

    answer = client.get("/act/", **bearer(token))

    assert (answer.status_code, answer.wsgi_request.user.is_authenticated) == (200, False)


@pytest.mark.parametrize("address", ["/api/probe/read", "/act/"])
def test_a_tokens_rate_limit_applies_where_reading_is_open(client, open_to_all, monkeypatch, address):
    token = issue_user_token(user_with("viewer").pk, "export", NOW)
    monkeypatch.setattr(rate_limits, "wait_s", lambda key, rate: 2.5)

    assert client.get(address, **bearer(token)).status_code == 429


def test_authorization_for_a_proxy_in_front_is_ignored(client, open_to_all):
    basic = {**ELSEWHERE, "HTTP_AUTHORIZATION": "Basic YWRhOnNlY3JldA=="}

    assert client.get("/api/probe/read", **basic).status_code == 200
    assert client.post("/api/probe/write", **basic).status_code == 401


@pytest.mark.parametrize("of", ["192.0.2.7", "{account}", "{account}:192.0.2.7"])
def test_password_guessing_is_limited(client, monkeypatch, of):
    user_with("viewer")
    blocked = f"login:{of.format(account=token_digest('somebody'))}"
    monkeypatch.setattr(rate_limits, "wait_s", lambda key, rate: 4.2 if key == blocked else 0.0)

    answer = client.post("/login/", {"username": "somebody", "password": PASSWORD}, **ELSEWHERE)

    assert (answer.status_code, answer["Retry-After"]) == (429, "5")
    assert "Wait 5 s." in answer.content.decode()
    assert "sessionid" not in client.cookies


def test_an_operators_token_acts_in_the_api_only(client):
    token = issue_user_token(user_with("operator").pk, "tickets", NOW, may_operate=True)

    assert client.post("/api/probe/write", **bearer(token)).status_code == 200
    assert client.post("/act/", **bearer(token)).status_code == 302
    assert client.get("/form/", **bearer(token)).status_code == 302


def test_only_operators_get_a_token_that_may_operate(client):
    user = user_with("viewer")
    with pytest.raises(CommandError, match=r"somebody may not operate.*`manage\.py user role somebody operator`"):
        user_command("token", "somebody", "--operate")
    user.groups.add(Group.objects.get(name="operator"))

    token = user_command("token", "somebody", "--operate").strip()

    assert client.post("/api/probe/write", **bearer(token)).status_code == 200


def user_command(*arguments, typed=None, monkeypatch=None):
    out = io.StringIO()
    if typed is not None:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    call_command("user", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_an_account_is_created_changed_and_closed(client, monkeypatch):
    output = user_command("add", "ada", "--role", "viewer", typed=f"{PASSWORD}\n", monkeypatch=monkeypatch)

    assert output == "ada: account created, viewer\n"
    assert client.login(username="ada", password=PASSWORD)
    assert client.post("/act/", **ELSEWHERE).status_code == 403
    assert user_command("role", "ada", "operator") == "ada: role set to operator\n"
    assert client.post("/act/", **ELSEWHERE).status_code == 200
    assert "ada                  operator   tokens: none" in user_command("list")
    assert user_command("remove", "ada") == "ada: account and tokens deleted\n"
    assert client.get("/act/", **ELSEWHERE).status_code == 302


@pytest.mark.parametrize(
    ("arguments", "typed", "facts"),
    [
        (("add", "ada", "--role", "viewer"), "short\n", ("This password is too short",)),
        (("add", "ada", "--role", "viewer"), "password123\n", ("This password is too common",)),
        (("add", "ad a", "--role", "viewer"), f"{PASSWORD}\n", ("Enter a valid username",)),
        (
            ("add", "somebody", "--role", "viewer"),
            f"{PASSWORD}\n",
            ("somebody has an account already", "`manage.py user role somebody viewer`"),
        ),
        (("role", "nobody", "viewer"), None, ("nobody has no account", "`manage.py user list`")),
    ],
)
def test_invalid_accounts_are_refused_with_the_reason(arguments, typed, facts, monkeypatch):
    user_with("viewer")

    with pytest.raises(CommandError) as error:
        user_command(*arguments, typed=typed, monkeypatch=monkeypatch)

    assert lacks(str(error.value), *facts) == []
    assert User.objects.count() == 1


def test_tokens_are_created_named_revoked_and_stored_as_digests(client):
    user_with("viewer")

    token = user_command("token", "somebody", "--for", "export").strip()
    other = user_command("token", "somebody", "--for", "plots").strip()

    assert client.get("/api/probe/read", **bearer(token)).status_code == 200
    assert set(UserToken.objects.values_list("digest", flat=True)) == {token_digest(token), token_digest(other)}
    assert "tokens: export, plots" in user_command("list")
    assert user_command("revoke", "somebody", "--for", "export") == "somebody: 1 token revoked\n"
    assert client.get("/api/probe/read", **bearer(token)).status_code == 401
    assert client.get("/api/probe/read", **bearer(other)).status_code == 200
    assert user_command("revoke", "somebody") == "somebody: 1 token revoked\n"
