"""Canaille, an identity provider written by others, on loopback over HTTP: its own login, consent and logout pages.

`running(port)` starts it in a process of its own, as `python -m tests.foreign_provider` does; each start has new keys,
and the same users. Only its settings, users and client are from here. It insists on PKCE and a nonce.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from urllib.parse import urljoin
from wsgiref.simple_server import make_server

import requests

from tests.e2e.centre import answers
from tests.e2e.stack import TOP, wait_for

HOST = "soundings.example.org"
CLIENT_ID, CLIENT_SECRET, PASSWORD = "soundings", "a secret of the client", "long and winding road"
USERS = {"ada": "noc", "eve": "others"}
"""Users with their group."""
TIMEOUT_S = 60


@contextmanager
def running(port: int, algorithm: str) -> Iterator[None]:
    """The provider, whose ID tokens are signed by this algorithm."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.foreign_provider", str(port), algorithm],
            cwd=TOP,
            env={**os.environ, "AUTHLIB_INSECURE_TRANSPORT": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_for(lambda: answers(port) or process.poll() is not None, 120, "the provider answers")
            log.seek(0)
            assert process.poll() is None, log.read()
            yield
        finally:
            process.terminate()
            process.wait(timeout=30)


class Visitor:
    """A browser's session at the provider, without a browser. `typed` counts the passwords typed."""

    def __init__(self) -> None:
        self.session = requests.Session()
        self.typed = 0

    def log_in(self, address: str, user: str, answer: str) -> str:
        """Address to which the provider redirects after a login, and this answer to its question for consent."""
        page = self.follow(self.session.get(address, allow_redirects=False, timeout=TIMEOUT_S))
        for values in {"login": user}, {"password": PASSWORD}, {"answer": answer}:
            if isinstance(page, str):
                break
            form = Form(page.text, *values)
            if form.is_there:
                self.typed += "password" in values
                target = urljoin(page.url, form.action)
                page = self.follow(
                    self.session.post(target, form.fields | values, allow_redirects=False, timeout=TIMEOUT_S)
                )
        assert isinstance(page, str), page.text
        return page

    def follow(self, answer: requests.Response) -> requests.Response | str:
        """The page to which redirects lead, or the address at our centre."""
        while answer.is_redirect:
            location = urljoin(answer.url, answer.headers["Location"])
            if location.startswith(f"https://{HOST}/"):
                return location
            answer = self.session.get(location, allow_redirects=False, timeout=TIMEOUT_S)
        return answer


class Form(HTMLParser):
    """The form of a page that has a field of this name: its action and the values that it has already."""

    def __init__(self, page: str, name: str) -> None:
        super().__init__()
        self.action, self.fields, self.is_there = "", dict[str, str](), False
        self._name = name
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        if tag == "form" and not self.is_there:
            self.action, self.fields = values.get("action", ""), {}
        elif tag in ("input", "button"):
            self.is_there = self.is_there or values.get("name") == self._name
            if tag == "input" and "name" in values:
                self.fields.setdefault(values["name"], values.get("value", ""))


def serve(port: int, algorithm: str) -> None:
    from canaille import create_app
    from canaille.app import models
    from canaille.backends import Backend

    app = create_app(
        config={
            "SECRET_KEY": secrets.token_hex(),
            "SERVER_NAME": f"127.0.0.1:{port}",
            "PREFERRED_URL_SCHEME": "http",
            "CANAILLE": {"DATABASE": "memory", "JAVASCRIPT": False},
            "CANAILLE_OIDC": {"TRUSTED_DOMAINS": [HOST]},  # to which a logout may redirect
        },
        env_file=None,
    )
    with app.app_context():
        for name, group in USERS.items():
            user = models.User(
                user_name=name, formatted_name=name, family_name=name, display_name=name,
                emails=[f"{name}@example.org"], password=PASSWORD,
            )  # fmt: skip
            Backend.instance.save(user)
            Backend.instance.save(models.Group(display_name=group, members=[user]))
        client = models.Client(
            client_id=CLIENT_ID, client_secret=CLIENT_SECRET, client_name="Soundings",
            client_uri="https://www.example.net",  # not trusted, so that users are asked for their consent
            redirect_uris=[f"https://{HOST}/login/sso/callback/"],
            post_logout_redirect_uris=[f"https://{HOST}/login/"], grant_types=["authorization_code"],
            response_types=["code"], scope=["openid", "profile", "groups"],
            token_endpoint_auth_method="client_secret_basic", id_token_signed_response_alg=algorithm,
        )  # fmt: skip
        Backend.instance.save(client)
        client.audience = [client]  # by the number that it has since it was stored
        Backend.instance.save(client)
    make_server("127.0.0.1", port, app).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
