"""Single sign-on at an identity provider that others wrote, through its own pages, with its own keys."""

from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User

from monitor.accounts import oidc_settings
from monitor.accounts.roles import roles_of
from tests.e2e.centre import free_port
from tests.facts import lacks
from tests.foreign_provider import CLIENT_ID, CLIENT_SECRET, HOST, Visitor, running

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]
HTTPS = {"REMOTE_ADDR": "192.0.2.7", "HTTP_HOST": HOST, "wsgi.url_scheme": "https"}


@dataclass
class Provider:
    port: int
    process: ExitStack

    def restart(self, algorithm):
        """With other keys, and ID tokens signed by this algorithm."""
        self.process.close()
        self.process.enter_context(running(self.port, algorithm))


@pytest.fixture(scope="module")
def running_provider():
    with ExitStack() as process:
        provider = Provider(free_port(), process)
        provider.restart("RS256")
        yield provider


@pytest.fixture
def provider(running_provider, settings, monkeypatch):
    values = {
        "ISSUER": f"http://127.0.0.1:{running_provider.port}",
        "CLIENT_ID": CLIENT_ID,
        "CLIENT_SECRET": CLIENT_SECRET,
        "SCOPES": "openid profile groups",
        "ROLES": "noc=operator",
    }
    for name, value in values.items():
        monkeypatch.setenv(f"SOUNDINGS_OIDC_{name}", value)
    settings.ALLOWED_HOSTS = [HOST]
    settings.PUBLIC_READ = settings.LOCAL_READ = False
    settings.OIDC = oidc_settings.read()
    return running_provider


def log_in(client, visitor, user, answer="accept"):
    """Our answer to the login of a user at the provider."""
    begun = client.get("/login/sso/?next=/sites/", **HTTPS)
    assert begun.status_code == 302, begun.content
    parts = urlsplit(visitor.log_in(begun.headers["Location"], user, answer))
    assert parts.path == "/login/sso/callback/"
    return client.get(f"{parts.path}?{parts.query}", **HTTPS)


def test_who_declines_or_has_no_group_is_refused(client, provider):
    # First: what one user has consented to, this provider's memory takes for the others too.
    declined = log_in(client, Visitor(), "ada", answer="deny")
    without_group = log_in(client, Visitor(), "eve")

    assert (declined.status_code, without_group.status_code) == (403, 403)
    assert lacks(declined.content.decode(), "refused the login, or you did") == []
    assert lacks(without_group.content.decode(), "None of your groups") == []
    assert not User.objects.exists()


def test_a_group_gives_its_role_until_the_logout_there_too(client, provider):
    visitor = Visitor()

    answer = log_in(client, visitor, "ada")
    assert (answer.status_code, answer.headers.get("Location")) == (302, "/sites/")
    assert roles_of(User.objects.get(username="ada")) == ["operator"]
    assert client.get("/settings/", **HTTPS).status_code == 200

    logout = client.post("/logout/", **HTTPS)
    back = visitor.follow(visitor.session.get(logout.headers["Location"], allow_redirects=False, timeout=60))
    assert back.partition("?")[0] == f"https://{HOST}/login/"
    assert log_in(client, visitor, "ada").status_code == 302
    assert visitor.typed == 2, "the logout has not ended the session at the provider"


def test_new_keys_of_another_kind_are_taken(client, provider):
    assert log_in(client, Visitor(), "ada").status_code == 302
    client.logout()
    provider.restart("Ed25519")

    assert log_in(client, Visitor(), "ada").status_code == 302
    assert client.get("/settings/", **HTTPS).status_code == 200
    assert User.objects.count() == 1
