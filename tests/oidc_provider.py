"""A provider of OpenID Connect on loopback, over real HTTP, with faults that a test plants.

It keeps to OpenID Connect Core by itself: codes are for once, PKCE and the client's secret are checked, nothing of our
own code or of Authlib's flow is used. Tokens are signed by joserfc.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, CLIENT_SECRET = "soundings", "a secret of the client"
FORM = """<!doctype html><title>Provider</title><form method="post">
<label>User <input name="user"></label><button>Sign in</button></form>"""


class Provider:
    """Its users by name, with their claims. `claims` replaces claims of each ID token, `sign_with` its key."""

    def __init__(self) -> None:
        self.users: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, Any] = {}
        self.key = RSAKey.generate_key(2048, {"kid": secrets.token_hex(4)})
        self.sign_with: RSAKey | None = None
        self.header: dict[str, Any] = {"alg": "RS256"}
        self.ended: list[dict[str, list[str]]] = []
        self._codes: dict[str, dict[str, str]] = {}
        self.issuer = ""

    def rotate(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": secrets.token_hex(4)})

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "end_session_endpoint": f"{self.issuer}/end",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }

    def code_for(self, user: str, query: dict[str, list[str]]) -> str:
        """Address to which the browser goes after the login of a user."""
        request = {name: values[0] for name, values in query.items()}
        assert request["client_id"] == CLIENT_ID
        assert request["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self._codes[code] = {**request, "user": user}
        return f"{request['redirect_uri']}?{urlencode({'code': code, 'state': request['state']})}"

    def token(self, form: dict[str, list[str]], authorization: str) -> tuple[int, dict[str, Any]]:
        expected = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if authorization != f"Basic {expected}":
            return 401, {"error": "invalid_client"}
        request = self._codes.pop(form["code"][0], None)
        digest = hashlib.sha256(form.get("code_verifier", [""])[0].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if request is None or request["code_challenge"] != challenge:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.issuer, "sub": f"id of {request['user']}", "aud": CLIENT_ID, "iat": now, "exp": now + 300,
            "nonce": request["nonce"], "preferred_username": request["user"],
            **self.users[request["user"]], **self.claims,
        }  # fmt: skip
        key = self.sign_with or self.key
        header = {**self.header, "kid": self.key.kid}
        id_token = jwt.encode(header, claims, key, algorithms=[header["alg"]])
        return 200, {"access_token": secrets.token_hex(8), "token_type": "Bearer", "id_token": id_token}


@contextmanager
def serving() -> Iterator[Provider]:
    """A provider on a free port of loopback."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            documents = {
                "/.well-known/openid-configuration": provider.metadata(),
                "/keys": {"keys": [provider.key.as_dict(private=False)]},
            }
            if parts.path in documents:
                self._json(200, documents[parts.path])
            elif parts.path == "/authorize" and "as" in query:
                self._redirect(provider.code_for(query["as"][0], query))
            elif parts.path == "/authorize":
                self._send(200, FORM.encode(), "text/html")
            elif parts.path == "/end":
                provider.ended.append(query)
                self._redirect(query["post_logout_redirect_uri"][0])
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            parts = urlsplit(self.path)
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            if parts.path == "/token":
                self._json(*provider.token(form, self.headers.get("Authorization", "")))
            else:
                self._redirect(provider.code_for(form["user"][0], parse_qs(parts.query)))

        def _json(self, status: int, content: dict[str, Any]) -> None:
            self._send(status, json.dumps(content).encode(), "application/json")

        def _redirect(self, address: str) -> None:
            self.send_response(303)
            self.send_header("Location", address)
            self.end_headers()

        def _send(self, status: int, content: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
