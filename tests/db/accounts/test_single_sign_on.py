"""Single sign-on with a provider on loopback: who gets in with which role, and every answer that must not log in."""

import time
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.utils import timezone
from joserfc.jwk import OctKey, RSAKey

from monitor.accounts import oidc_settings
from monitor.accounts.models import ReadLimit
from monitor.accounts.roles import Role, give_role, roles_of
from monitor.mesh.models import Group
from tests.facts import lacks
from tests.oidc_provider import CLIENT_ID, CLIENT_SECRET, serving

pytestmark = pytest.mark.django_db
HTTPS = {"REMOTE_ADDR": "192.0.2.7", "HTTP_HOST": "soundings.example.org", "wsgi.url_scheme": "https"}
OIDC = {
    "CLIENT_ID": CLIENT_ID,
    "CLIENT_SECRET": CLIENT_SECRET,
    "ROLES": "noc=operator staff=viewer guests=viewer:hep",
}


def configured(monkeypatch, **values):
    for name, value in values.items():
        monkeypatch.setenv(f"SOUNDINGS_OIDC_{name}", value)
    return oidc_settings.read()


@pytest.fixture(scope="module")
def server():
    with serving() as provider:
        yield provider


@pytest.fixture
def provider(server, settings, monkeypatch):
    server.users = {"ada": {"groups": ["noc", "all"]}, "bob": {"groups": ["staff"]}, "eve": {"groups": ["others"]}}
    server.claims, server.sign_with, server.header = {}, None, {"alg": "RS256"}
    settings.ALLOWED_HOSTS = ["soundings.example.org"]
    settings.PUBLIC_READ = settings.LOCAL_READ = False
    settings.OIDC = configured(monkeypatch, ISSUER=server.issuer, **OIDC)
    return server


def at_provider(client, user, address="/login/sso/"):
    """Where the provider sends the browser of this user."""
    asked = client.get(address, **HTTPS)
    assert asked.status_code == 302, asked.content
    answer = requests.get(f"{asked.headers['Location']}&as={user}", allow_redirects=False, timeout=10)
    return answer.headers["Location"]


def back(client, location):
    parts = urlsplit(location)
    assert (parts.scheme, parts.netloc, parts.path) == ("https", "soundings.example.org", "/login/sso/callback/")
    return client.get(f"{parts.path}?{parts.query}", **HTTPS)


def log_in(client, user="ada"):
    return back(client, at_provider(client, user))


def is_in(client):
    return client.get("/settings/", **HTTPS).status_code == 200


@pytest.mark.parametrize(("name", "role"), [("ada", "operator"), ("bob", "viewer")])
def test_a_group_gives_its_role(client, provider, name, role):
    answer = back(client, at_provider(client, name, "/login/sso/?next=/sites/"))

    assert (answer.status_code, answer.headers["Location"]) == (302, "/sites/")
    assert is_in(client)
    assert roles_of(User.objects.get(username=name)) == [role]


def test_the_login_redirects_to_no_other_site(client, provider):
    answer = back(client, at_provider(client, "ada", "/login/sso/?next=https://example.net/"))

    assert answer.headers["Location"] == "/"


def test_no_mapped_group_is_no_access_or_viewer(client, provider, settings, monkeypatch):
    answer = log_in(client, "eve")

    assert answer.status_code == 403
    assert "None of your groups" in answer.content.decode()
    assert not User.objects.exists()
    settings.OIDC = configured(monkeypatch, DEFAULT_ROLE="viewer")
    assert log_in(client, "eve").status_code == 302
    assert roles_of(User.objects.get(username="eve")) == ["viewer"]


def test_a_removed_group_takes_the_role_at_the_next_login(client, provider):
    log_in(client)
    provider.users["ada"] = {"groups": ["staff"]}
    log_in(client)
    assert roles_of(User.objects.get()) == ["viewer"]

    provider.users["ada"] = {"groups": []}

    assert log_in(client).status_code == 403
    assert roles_of(User.objects.get()) == []


@pytest.mark.parametrize("groups", ["guests", ["guests"], [], None, 7, {"noc": True}])
def test_a_login_without_a_group_ends_every_session(client, provider, groups):
    """`guests` are limited to the group hep of a mesh that has none."""
    others = [client, Client(), Client()]
    for browser in others:
        log_in(browser)
    provider.users["ada"] = {"groups": groups}

    answer = log_in(Client())

    user = User.objects.get()
    assert answer.status_code == 403
    assert (roles_of(user), ReadLimit.objects.filter(user=user).exists()) == ([], False)
    give_role(user, Role.OPERATOR)  # a session that goes on would have it
    assert [is_in(browser) for browser in others] == [False] * 3


def test_a_lower_role_ends_the_sessions_of_the_higher(client, provider):
    log_in(client)
    provider.users["ada"] = {"groups": ["staff"]}
    other = Client()
    assert log_in(other).status_code == 302

    assert (is_in(client), is_in(other)) == (False, True)


def test_the_same_role_leaves_other_sessions_open(client, provider):
    log_in(client)
    other = Client()
    log_in(other)

    assert (is_in(client), is_in(other)) == (True, True)


def test_an_entry_whose_mesh_groups_are_gone_does_not_count(client, provider, settings, monkeypatch):
    roles = "noc=operator:gone staff=viewer:hep,gone guests=viewer:gone"
    settings.OIDC = configured(monkeypatch, ROLES=roles, DEFAULT_ROLE="viewer")
    Group.objects.create(name="hep", shape="mesh")
    provider.users["ada"] = {"groups": ["noc", "staff"]}
    log_in(client)
    assert roles_of(User.objects.get()) == ["viewer"]
    assert [group.name for group in ReadLimit.objects.get().groups.all()] == ["hep"]

    provider.users["ada"] = {"groups": ["guests"]}
    answer = log_in(client)

    assert (answer.status_code, "gone" in answer.content.decode()) == (403, True)
    assert roles_of(User.objects.get()) == [], "the default role would be wider than the limited group"


def test_a_subject_that_cannot_be_stored_is_refused(client, provider):
    provider.claims = {"sub": "a\x00b"}

    assert log_in(client).status_code == 403
    assert not User.objects.exists()


def test_a_session_lasts_the_set_hours(client, provider, monkeypatch):
    log_in(client)
    assert client.session.get_expiry_date() - timezone.now() <= timedelta(hours=8)

    later = timezone.now() + timedelta(hours=8, minutes=1)
    monkeypatch.setattr(timezone, "now", lambda: later)

    assert not is_in(client)


def test_a_group_limits_what_is_read(client, provider):
    Group.objects.create(name="hep", shape="mesh")
    provider.users["ada"] = {"groups": "guests"}
    log_in(client)
    assert [group.name for group in ReadLimit.objects.get(user__username="ada").groups.all()] == ["hep"]

    provider.users["ada"] = {"groups": ["guests", "staff"]}
    log_in(client)

    assert not ReadLimit.objects.exists()


def test_a_local_account_is_never_taken_over(client, provider):
    User.objects.create_user("ada", password="x")

    answer = log_in(client)

    assert answer.status_code == 403
    assert "belongs to another account" in answer.content.decode()
    assert not is_in(client)


def test_an_account_follows_its_subject(client, provider):
    log_in(client)
    provider.users["ada"] = {"groups": ["noc"], "preferred_username": "ada2"}
    log_in(client)

    assert [user.username for user in User.objects.all()] == ["ada"]


NOW_S = int(time.time())
WRONG = {
    "nonce": {"nonce": "of another login"},
    "no nonce": {"nonce": None},
    "audience": {"aud": "another client"},
    "issuer": {"iss": "https://example.net"},
    "expired": {"iat": NOW_S - 700, "exp": NOW_S - 400},
    "from the future": {"iat": NOW_S + 4000, "nbf": NOW_S + 4000, "exp": NOW_S + 5000},
}


@pytest.mark.parametrize("claims", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_token_logs_nobody_in(client, provider, claims):
    provider.claims = claims

    answer = log_in(client)

    assert answer.status_code == 403
    assert "not valid" in answer.content.decode()
    assert not is_in(client)
    assert not User.objects.exists()


def test_a_clock_that_differs_by_half_a_minute_is_accepted(client, provider):
    now_s = int(time.time())
    provider.claims = {"iat": now_s + 30, "exp": now_s + 330}
    assert log_in(client).status_code == 302

    provider.claims = {"iat": now_s - 330, "exp": now_s - 30}
    assert log_in(client).status_code == 302


@pytest.mark.parametrize("forged", ["another key", "the client's secret"])
def test_a_wrong_signature_logs_nobody_in(client, provider, forged):
    if forged == "another key":
        provider.sign_with = RSAKey.generate_key(2048)
    else:
        provider.sign_with, provider.header = OctKey.import_key(CLIENT_SECRET), {"alg": "HS256"}

    assert log_in(client).status_code == 403
    assert not is_in(client)


def test_new_keys_of_the_provider_are_taken_at_once(client, provider):
    assert log_in(client).status_code == 302
    provider.rotate()

    assert log_in(client).status_code == 302


def test_an_answer_is_for_one_login_of_one_browser(client, provider, django_user_model):
    location = at_provider(client, "ada")
    stranger = type(client)()

    assert back(stranger, location).status_code == 403
    assert not is_in(stranger)
    assert back(client, location).status_code == 302
    client.logout()
    assert back(client, location).status_code == 403
    assert not is_in(client)


def test_a_changed_state_logs_nobody_in(client, provider):
    location = at_provider(client, "ada")
    state = parse_qs(urlsplit(location).query)["state"][0]

    assert back(client, location.replace(state, "another")).status_code == 403


@pytest.mark.parametrize(
    ("error", "told"),
    [("access_denied", "refused the login, or you did"), ("invalid_scope", "invalid_scope"), ("call+me", "reason is")],
)
def test_a_refusal_is_told_without_the_words_of_its_link(client, provider, error, told):
    answer = back(client, f"https://soundings.example.org/login/sso/callback/?error={error}&error_description=call+me")

    page = answer.content.decode()
    assert answer.status_code == 403
    assert (lacks(page, told), "call me" in page, "not valid" in page) == ([], False, False)


def test_while_the_provider_is_down_local_accounts_log_in(client, provider, settings, monkeypatch):
    settings.OIDC = configured(monkeypatch, ISSUER="http://127.0.0.1:9")
    User.objects.create_user("local", password="long and winding").groups.add(1)

    answer = client.get("/login/sso/", **HTTPS)
    page = client.post("/login/", {"username": "local", "password": "long and winding"}, **HTTPS)

    assert answer.status_code == 503
    assert "does not answer" in answer.content.decode()
    assert page.status_code == 302


def test_the_logout_ends_the_session_at_the_provider(client, provider):
    log_in(client)

    answer = client.post("/logout/", **HTTPS)

    parts = urlsplit(answer.headers["Location"])
    query = parse_qs(parts.query)
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{provider.issuer}/end"
    assert query["post_logout_redirect_uri"] == ["https://soundings.example.org/login/"]
    assert query["id_token_hint"][0].count(".") == 2
    assert not is_in(client)


def test_the_login_page_has_a_button_only_with_a_provider(client, provider, settings):
    assert "/login/sso/?next=%2Fsites%2F" in client.get("/login/?next=/sites/", **HTTPS).content.decode()

    settings.OIDC = None

    assert "/login/sso/" not in client.get("/login/", **HTTPS).content.decode()
    assert client.get("/login/sso/", **HTTPS).status_code == 404


BAD = {
    "ISSUER": "http://sso.example.org",
    "CLIENT_ID": "",
    "CLIENT_SECRET": "",
    "ROLES": "noc=admin",
    "DEFAULT_ROLE": "operator",
    "SESSION_HOURS": "0",
    "SCOPES": "profile",
}


@pytest.mark.parametrize(("name", "value"), BAD.items())
def test_a_wrong_setting_is_named(monkeypatch, name, value):
    with pytest.raises(ImproperlyConfigured, match=f"SOUNDINGS_OIDC_{name}"):
        configured(monkeypatch, **{"ISSUER": "https://sso.example.org", **OIDC, name: value})


def test_the_secret_can_be_in_a_file(monkeypatch, tmp_path):
    (tmp_path / "secret").write_text("from a file\n")

    oidc = configured(
        monkeypatch, ISSUER="https://sso.example.org/", CLIENT_ID="x", CLIENT_SECRET_FILE=str(tmp_path / "secret")
    )

    assert oidc.client_secret == "from a file"
