"""Reports through a real SMTP server that requires TLS and a password, configured by SOUNDINGS_SMTP_URL."""

from __future__ import annotations

import socket
import ssl
from datetime import timedelta

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from monitor.environment import mail_server
from monitor.reports.models import Delivery
from monitor.reports.sending import FIRST_RETRY_S, send_due
from monitor.reports.subscribers import subscribe
from tests.db.reports.test_reports_mail import BEFORE_IT, MONDAY_7, Inbox, free_port, make_data, subscription
from tests.e2e.centre import make_certificate

pytestmark = pytest.mark.django_db
USER, PASSWORD = "reports@example.org", "a p@ss:word/"
IN_THE_ADDRESS = "reports%40example.org:a%20p%40ss%3Aword%2F"


class LoginInbox(Inbox):
    """An inbox behind a login; records the attempts."""

    def __init__(self) -> None:
        super().__init__()
        self.tried: list[tuple[str, str, bool]] = []

    def check(self, server, session, envelope, mechanism, credentials: LoginPassword) -> AuthResult:
        is_tls = server.transport.get_extra_info("ssl_object") is not None
        login, password = credentials.login.decode(), credentials.password.decode()
        self.tried.append((login, password, is_tls))
        return AuthResult(success=(login, password) == (USER, PASSWORD), handled=False)


class ImplicitTlsServer(Controller):
    """A server whose connections are TLS from their first byte. The base class checks for its own context, which no
    client may use."""

    def _trigger_server(self) -> None:
        anyone = ssl._create_unverified_context()
        with socket.create_connection((self.hostname, self.port), 10) as plain, anyone.wrap_socket(plain) as client:
            client.recv(1024)


@pytest.fixture
def certificate(tmp_path):
    return make_certificate(tmp_path, "DNS:localhost,IP:127.0.0.1")


@pytest.fixture(params=["smtp+tls", "smtps"])
def served(request, certificate, settings, monkeypatch):
    """A server of either kind, with Django configured as in `monitor.settings`. Our certificate is trusted."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    guarded, port = LoginInbox(), free_port()
    login = {"authenticator": guarded.check, "auth_required": True}
    controller = (
        ImplicitTlsServer(
            guarded, hostname="127.0.0.1", port=port, ssl_context=context, auth_require_tls=False, **login
        )
        if request.param == "smtps"
        else Controller(guarded, hostname="127.0.0.1", port=port, tls_context=context, require_starttls=True, **login)
    )
    controller.start()
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"

    def use(credentials: str) -> None:
        monkeypatch.setenv("SOUNDINGS_SMTP_URL", f"{request.param}://{credentials}@127.0.0.1:{port}")
        server = mail_server("SOUNDINGS_SMTP_URL")
        settings.EMAIL_HOST, settings.EMAIL_PORT = server.host, server.port
        settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = server.user, server.password
        settings.EMAIL_USE_SSL, settings.EMAIL_USE_TLS = server.is_tls, server.starts_tls

    use(IN_THE_ADDRESS)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    guarded.use = use
    yield guarded
    controller.stop()


@pytest.fixture
def subscriber(db):
    make_data()
    return subscribe(subscription(), BEFORE_IT)


def test_a_report_goes_through_tls_with_a_login(served, subscriber):
    assert send_due(MONDAY_7) == 1
    assert served.tried == [(USER, PASSWORD, True)]
    assert served.mails[0]["To"] == "lead@example.org"


def test_a_wrong_password_is_reported_and_the_mail_waits(served, subscriber):
    served.use("reports%40example.org:wrong")
    sent = send_due(MONDAY_7)
    problem = Delivery.objects.get().problem
    served.use(IN_THE_ADDRESS)

    assert sent == 0
    assert problem.startswith("mail server unavailable: (535,")
    assert "wrong" not in problem
    assert send_due(MONDAY_7 + timedelta(seconds=FIRST_RETRY_S)) == 1


def test_an_untrusted_server_never_gets_the_password(served, subscriber, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")

    assert send_due(MONDAY_7) == 0
    assert "certificate verify failed" in Delivery.objects.get().problem
    assert served.tried == served.raw == []
