"""An agent and real TLS servers, trusted and untrusted: which get its token, and its messages for the others."""

import contextlib
import http.server
import socketserver
import ssl
import subprocess
import threading

import pytest

from probes.site.delivery.centre import BadCertificate, Centre, CentreError
from probes.site.settings import SettingsError

TOKEN = "the-token-of-this-site"
HERE = "IP:127.0.0.1"


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


@pytest.fixture
def authority(tmp_path, monkeypatch):
    """A CA of our own that the agent trusts."""
    key, certificate = tmp_path / "ca.key", tmp_path / "ca.pem"
    openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
        *("-subj", "/CN=our authority", "-keyout", key, "-out", certificate),
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    return certificate, key


def signed(folder, authority, name, days):
    """A certificate and key for a name, by the authority; with -1 day it expired yesterday."""
    certificate, key, request, names = (folder / f"centre.{suffix}" for suffix in ("pem", "key", "csr", "ext"))
    names.write_text(f"subjectAltName={name}\n")
    openssl(
        *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=centre"),
        *("-keyout", key, "-out", request),
    )
    openssl(
        *("x509", "-req", "-in", request, "-CA", authority[0], "-CAkey", authority[1], "-CAcreateserial"),
        *("-days", days, "-extfile", names, "-out", certificate),
    )
    return certificate, key


class PlanServer(http.server.BaseHTTPRequestHandler):
    """Answers 304 to every request, and records the authorization header."""

    def do_GET(self):
        self.server.shown.append(self.headers.get("Authorization"))
        self.send_response(304)
        self.end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def server(certificate=None, key=None, kind=http.server.ThreadingHTTPServer, address=("127.0.0.1", 0), **options):
    """An HTTP server, with a certificate over TLS; yields it and its port."""
    with kind(address, PlanServer) as running:
        running.shown = []
        running.handle_error = lambda *_: None  # an agent that aborts the handshake
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            for name, value in options.items():
                setattr(context, name, value)
            running.socket = context.wrap_socket(running.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield running, running.server_address[1]
        finally:
            running.shutdown()
            thread.join()


class UnixServer(socketserver.ThreadingUnixStreamServer):
    """Behind a Unix socket, whose clients have no address."""

    def get_request(self):
        connection, _ = super().get_request()
        return connection, ("", 0)


@pytest.fixture
def token_file(tmp_path):
    file = tmp_path / "token"
    file.write_text(TOKEN)
    return file


def test_a_centre_with_a_valid_certificate_gets_the_token(tmp_path, authority, token_file):
    with server(*signed(tmp_path, authority, HERE, 2)) as (running, port):
        assert Centre(f"https://127.0.0.1:{port}", token_file).plan("v1") is None

    assert running.shown == [f"Bearer {TOKEN}"]


BAD = {
    "of another name": ("DNS:elsewhere.example", 2, "IP address mismatch"),
    "of another address": ("IP:192.0.2.1", 2, "IP address mismatch"),
    "that has ended": (HERE, -1, "certificate has expired"),
}


@pytest.mark.parametrize(("name", "days", "words"), BAD.values(), ids=BAD.keys())
def test_an_invalid_certificate_gets_no_token(tmp_path, authority, token_file, name, days, words):
    with server(*signed(tmp_path, authority, name, days)) as (running, port), pytest.raises(BadCertificate) as error:
        Centre(f"https://127.0.0.1:{port}", token_file).plan(None)

    assert words in str(error.value)
    assert TOKEN not in str(error.value)
    assert running.shown == []


def test_a_certificate_of_an_untrusted_authority_gets_no_token(tmp_path, authority, token_file, monkeypatch):
    files = signed(tmp_path, authority, HERE, 2)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "nobody.pem"))
    with (
        server(*files) as (running, port),
        pytest.raises(BadCertificate, match="unable to get local issuer"),
    ):
        Centre(f"https://127.0.0.1:{port}", token_file).plan(None)

    assert running.shown == []


def test_a_self_signed_certificate_gets_no_token(tmp_path, authority, token_file):
    key, certificate = tmp_path / "self.key", tmp_path / "self.pem"
    openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
        *("-subj", "/CN=centre", "-addext", f"subjectAltName={HERE}", "-keyout", key, "-out", certificate),
    )
    with server(certificate, key) as (running, port), pytest.raises(BadCertificate, match="self-signed certificate"):
        Centre(f"https://127.0.0.1:{port}", token_file).plan(None)

    assert running.shown == []


def test_where_https_is_configured_plain_http_gets_no_token(authority, token_file):
    with server() as (running, port), pytest.raises(CentreError, match="cannot be reached"):
        Centre(f"https://127.0.0.1:{port}", token_file).plan(None)

    assert running.shown == []


def test_plain_http_to_other_machines_must_be_configured(token_file):
    with pytest.raises(SettingsError, match="plain HTTP would show the token to the network; write https://"):
        Centre("http://192.0.2.1:8000", token_file)
    Centre("http://192.0.2.1:8000", token_file, allow_plain_http=True)
    with server() as (running, port):
        Centre(f"http://127.0.0.1:{port}", token_file).plan("v1")

    assert running.shown == [f"Bearer {TOKEN}"]


def test_a_centre_behind_a_unix_socket_gets_the_token(tmp_path, token_file):
    path = tmp_path / "web.sock"
    with server(kind=UnixServer, address=str(path)) as (running, _):
        assert Centre(f"unix://{path}", token_file).plan("v1") is None

    assert running.shown == [f"Bearer {TOKEN}"]


@pytest.mark.parametrize("url", ["unix:///", "unix:///nowhere/web.sock"])
def test_a_centre_without_its_socket_cannot_be_reached(token_file, url):
    with pytest.raises(CentreError, match="cannot be reached"):
        Centre(url, token_file).plan("v1")


@pytest.mark.parametrize("url", ["unix://web.sock", "unix:web.sock", "unix://host/run/web.sock"])
def test_a_unix_socket_is_named_by_its_absolute_path(token_file, url):
    with pytest.raises(SettingsError, match="unix:///PATH"):
        Centre(url, token_file)
